#include "engine/run/generate_command.h"

#include "engine/run/inference_run.h"
#include "kernels/base/error.h"

namespace strata::engine {

int run_generate(const Options& options, Ranks& ranks) {
  const ReadableModel model = read_model(options, ranks);
  throw_error<ConfigError>("generate: {} can be read; decoding is to come", model.setup.model.name);
}

}  // namespace strata::engine
