// SearchTarget: the machine that a run is planned for: this one, or one described.
#pragma once

#include <optional>
#include <vector>

#include "engine/cost/machine_description.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/measured_machine.h"
#include "engine/run/ranks.h"
#include "engine/tune/search_space.h"

namespace strata::engine {

struct SearchTarget {
  Options options;  // as they are there
  SearchPlace place;
  std::optional<MachineDescription> machine;  // nothing: this one
};

// Looks at the free memory and drives of this machine, or reads --machine. Throws ConfigError.
SearchTarget make_search_target(const Options& options, const Ranks& ranks);
// `described`: by options_for().
SearchPlace place_of(const MachineDescription& machine, const Options& described);
// Of --machine, which is given.
SearchTarget described_target(const Options& options);

// Rates and costs there, for the micro-batches of the space that fit, to which it cuts the space;
// `measuring`: of this machine. Collective.
MachineModel model_of_target(const SearchTarget& target, SearchSpace& space, Measuring measuring,
                             Ranks& ranks);

// search_plans() there; shows on standard error how far it is. Of one rank.
std::vector<RankedPlan> find_plans(const SearchTarget& target, const SearchSpace& space,
                                   const MachineModel& model, int count,
                                   const comm::Communicator& comm);

// Of this setup there, if it is known without measuring. Collective.
std::optional<MachineModel> known_model(const SearchTarget& target, const RunSetup& setup,
                                        Ranks& ranks);

}  // namespace strata::engine
