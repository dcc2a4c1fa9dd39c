// MachineCache: what was measured of this machine, kept from one run of the program to the next in
//
//   $XDG_CACHE_HOME/strata/machine-HASH.json, or ~/.cache/strata/machine-HASH.json
//
// one file for each identity of a machine, so that machines may share a home directory. In it are
// tables of the cores' rates, of updates by the formats of state, of matmuls and their arithmetic
// by the shapes of a model, of drives by what their directories lie on, and of what layers cost by
// the shapes of a model and its micro-batch. A run records the arithmetic that it computes with for
// itself, whatever is here (recorded_arithmetic.h).
//
// A file that is damaged, of another version or of another machine is not used and replaced by the
// next store; note() says so. A cache that cannot be written is none: store_*() note it and go on.
// Not thread-safe; of several ranks on a host one stores.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

// What the rates of the cores depend on.
struct MachineIdentity {
  std::string processor;  // as /proc/cpuinfo calls it
  int threads = 0;        // workers of a rank
  int ranks = 1;          // on this host, which share its memory and drives
  std::int64_t memory_bytes = 0;
  std::string isa;             // "avx512"
  std::string matmul_library;  // name, version and the instruction set, or the GPU, that it uses
  std::string driver;          // of the GPU; "": the cores compute
};

// Settles the instruction set of the library that multiplies, as attach_cpu_ops() does.
MachineIdentity identify_machine(const RunSetup& setup);

// Where the cache of a machine is; "" where neither variable, which must be absolute, nor home
// directory says.
std::string machine_cache_path(const MachineIdentity& identity);

class MachineCache {
 public:
  // With what `path` holds of this machine; "": nothing, and nothing is kept.
  MachineCache(std::string path, MachineIdentity identity);

  // Everything that step_cost() needs for this setup, or nothing. `directories`: of the run's
  // store, empty when it has none; rates.nvme is theirs.
  std::optional<MachineRates> find_rates(const RunSetup& setup,
                                         std::span<const std::string> directories) const;
  // What was not measured, a rate of 0, is not kept.
  void store_rates(const RunSetup& setup, std::span<const std::string> directories,
                   const MachineRates& rates);

  // Of updates alone, which depend on the formats of state: MachineRates::optimizer_bytes_per_s.
  std::optional<double> find_optimizer(const RunSetup& setup) const;
  void store_optimizer(const RunSetup& setup, double bytes_per_s);

  // Of this model's shapes, micro-batch, precision, recompute and the matmuls' arithmetic.
  std::optional<ComputeCost> find_compute(const RunSetup& setup, const MachineRates& rates) const;
  void store_compute(const RunSetup& setup, const MachineRates& rates, const ComputeCost& cost);

  // Why what was there is not used, or what could not be kept; "" when all is well.
  const std::string& note() const { return note_; }

 private:
  nlohmann::json read() const;  // the tables; throws for what must not be used
  const nlohmann::json* find(const char* table, const std::string& key) const;
  void keep_optimizer(const RunSetup& setup, double bytes_per_s);
  void write();

  std::string path_;
  MachineIdentity identity_;
  nlohmann::json tables_ = nlohmann::json::object();  // by name and key
  std::string note_;
};

}  // namespace strata::engine
