#include "engine/run/pretrained.h"

#include <fmt/format.h>

#include "engine/run/run_store.h"
#include "kernels/base/error.h"
#include "models/presets.h"

namespace strata::engine {

std::unique_ptr<ModelFiller> open_pretrained(const RunSetup& setup) {
  const Options& options = setup.options;
  if (!options.resume_from.empty() || options.from_scratch) return nullptr;
  if (setup.source.folder.empty()) {
    if (models::implies_random_weights(options.model)) return nullptr;
    throw_error<ConfigError>(
        "--model {} names a published model's shape and has no weights; name the folder of the "
        "model, or org/name in the Hugging Face cache, or train it from random weights with "
        "--from-scratch",
        options.model);
  }
  return std::make_unique<ModelFiller>(setup.source.folder, manifest_of(setup),
                                       setup.topology.rank);
}

std::string weights_text(const RunSetup& setup, const ModelFiller* pretrained) {
  if (pretrained == nullptr) {
    const std::string& folder = setup.source.folder;
    return fmt::format("random, seed {}{}", setup.options.seed,
                       folder.empty() ? "" : "; the shape is that of " + folder);
  }
  const ModelReader& reader = pretrained->reader();
  return fmt::format(
      "pretrained, from {} ({}){}", reader.folder(), reader.description(),
      setup.source.has_dropout ? "; trained without the dropout of its config.json" : "");
}

}  // namespace strata::engine
