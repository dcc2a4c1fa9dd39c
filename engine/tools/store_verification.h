// StoreVerification: whether the commit that a resume would go on from is what was written, in all
// ranks' files that are here.
//
//   opened (shared: others may read, no run can go on) ─▶ newest commit: every block read, damage
//   collected ─▶ the other commit: up to the first damage
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/tools/stored_target.h"
#include "io/engine_choice.h"
#include "kernels/base/worker_set.h"

namespace strata::engine {

struct StoreVerification {
  std::int64_t bytes = 0;
  std::int64_t damaged = 0;          // ranges, and files that are missing or cannot be read
  std::optional<std::int64_t> step;  // of the commit that was verified
  // The other commit, where all ranks are here and it is intact as well.
  std::optional<std::int64_t> intact_step;
  std::string note;      // for people; may be empty
  std::string no_state;  // why it holds none to go on from, though nothing is damaged
};

// `on_damage` is called with a line for each damaged range, as soon as it is known. Throws
// ConfigError when a living run has a file locked, and for a run none of whose files are here.
StoreVerification verify_store(const StoredTarget& target, const io::EngineOptions& engine,
                               WorkerSet& workers,
                               const std::function<void(const std::string& line)>& on_damage);

}  // namespace strata::engine
