// The measuring of the machine at hand for a search (engine/tune), before any run is set up.
#pragma once

#include <optional>

#include "engine/run/ranks.h"
#include "engine/tune/machine_model.h"
#include "engine/tune/search_space.h"

namespace strata::engine {

// `again`: everything, for itself: the cache stays as it is.
enum class Measuring : std::uint8_t { nothing, what_is_not_known, everything, again };

// For the micro-batches of the space that fit on all ranks, to which it cuts the space; from the
// cache of the machine (machine_cache.h), which it fills, as far as Measuring permits. Reserves
// memory, and NVMe in the directories of the options, and gives it back. Collective. Throws what
// search_plans() throws, and ConfigError for what is not known and must not be measured.
MachineModel measure_for_search(SearchSpace& space, const SearchPlace& place, Measuring measuring,
                                Ranks& ranks);

// Of this setup, from the cache alone. Collective.
std::optional<MachineModel> measured_before(const RunSetup& setup, Ranks& ranks);

// The options of a run that takes the same for a step as one with these, and keeps nothing: without
// folder, copies, evaluations, samples, logs. NVMe lies where that of the run would.
Options without_outputs(const Options& options);

}  // namespace strata::engine
