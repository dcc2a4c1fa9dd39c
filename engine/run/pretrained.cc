#include "engine/run/pretrained.h"

#include <fmt/format.h>

#include "engine/run/run_store.h"

namespace strata::engine {

std::unique_ptr<ModelFiller> open_pretrained(const RunSetup& setup) {
  if (setup.source.folder.empty() || !setup.options.resume_from.empty()) return nullptr;
  return std::make_unique<ModelFiller>(setup.source.folder, manifest_of(setup),
                                       setup.topology.rank);
}

std::string weights_text(const RunSetup& setup, const ModelFiller* pretrained) {
  if (pretrained == nullptr) return fmt::format("random, seed {}", setup.options.seed);
  const ModelReader& reader = pretrained->reader();
  return fmt::format(
      "pretrained, from {} ({}){}", reader.folder(), reader.description(),
      setup.source.has_dropout ? "; trained without the dropout of its config.json" : "");
}

}  // namespace strata::engine
