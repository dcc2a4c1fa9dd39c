#include "engine/run/pretrained.h"

#include <fmt/format.h>

#include "engine/run/run_store.h"
#include "kernels/base/error.h"
#include "models/presets.h"

namespace strata::engine {

void check_weights_exist(const Options& options) {
  const bool from_elsewhere = options.from_scratch || !options.resume_from.empty();
  if (from_elsewhere || !models::is_model_name(options.model) ||
      models::implies_random_weights(options.model)) {
    return;
  }
  throw_error<ConfigError>(
      "--model {} is the shape of a published model and has no weights: name a folder that has "
      "them, or org/name in the Hugging Face cache, or train from random weights with "
      "--from-scratch",
      options.model);
}

std::unique_ptr<HfFiller> open_pretrained(const RunSetup& setup) {
  const Options& options = setup.options;
  if (setup.source.folder.empty() || options.from_scratch || !options.resume_from.empty()) {
    return nullptr;
  }
  try {
    return std::make_unique<HfFiller>(setup.source.folder, manifest_of(setup), setup.topology.rank);
  } catch (const FormatError& error) {
    throw_error<ConfigError>("--model {}: {}", options.model, error.what());
  }
}

std::string weights_text(const RunSetup& setup, const HfFiller* pretrained) {
  if (pretrained == nullptr) {
    const std::string& folder = setup.source.folder;
    return fmt::format("random, seed {}{}", setup.options.seed,
                       folder.empty() ? "" : "; the shape is that of " + folder);
  }
  const HfReader& reader = pretrained->reader();
  return fmt::format(
      "pretrained, from {} ({}){}", reader.folder(), reader.description(),
      setup.source.has_dropout ? "; trained without the dropout of its config.json" : "");
}

}  // namespace strata::engine
