#include "engine/infer/options_of_run.h"

#include <filesystem>

#include "engine/checkpoint/run_options.h"

namespace strata::engine {

std::optional<Options> options_of_run(const Options& given, const Options& defaults) {
  const std::filesystem::path folder = given.model;
  if (given.model.empty() || !std::filesystem::exists(folder / kRunOptionsFile)) {
    return std::nullopt;
  }
  Options options = defaults;
  options.run = given.model;
  options.resume = true;
  const Options recorded = recorded_options(options).value().options;
  options.model = recorded.model;
  options.precision = recorded.precision;
  options.matmul_dtype = recorded.matmul_dtype;
  options.seq_len = recorded.seq_len;
  options.pack = recorded.pack;
  options.overlong = recorded.overlong;
  return options;
}

}  // namespace strata::engine
