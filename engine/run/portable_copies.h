// PortableCopies: --checkpoint-to, --export-every and --export: copies of a run's commits for any
// program and any number of ranks, made while training goes on, one at a time.
//
//   idle ──after_step(): a commit that is wanted──▶ copying (all ranks) ──after_step(), …──▶ idle
//
// While any rank reads a commit's slots, or one is wanted that is not copied yet, no other commit
// may be made: holds_commits(). Whether that is so is known alike on all ranks: from the requests
// of a step's collective.
//
// Thread contract: one thread, on every rank at the same places; what is copied meanwhile is copied
// on a thread of the writer's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/committer.h"
#include "engine/cost/machine_rates.h"
#include "engine/plan/run_setup.h"
#include "engine/portable/writer.h"
#include "engine/run/run_store.h"
#include "engine/step/update_gate.h"
#include "kernels/device/device.h"
#include "offload/comm/communicator.h"
#include "offload/store/block_reader.h"

namespace strata::engine {

// Whether what --checkpoint-to, --export and --export-every name can be written. Creates nothing.
// Throws ConfigError.
void check_portable_outputs(const Options& options);

class PortableCopies {
 public:
  // Reserves what the plan has for it. All must outlive it. `begun_at`: the step that the run goes
  // on from, whose commit is copied where it is wanted and not there. Collective.
  PortableCopies(const RunSetup& setup, const MachineRates& rates, const RunStore& store,
                 Device& device, comm::Communicator& comm, StepRequests& requests,
                 std::int64_t begun_at);

  // After a step; `requests`: of all ranks, in that step. What to tell, if anything. Collective.
  std::optional<std::string> after_step(const Committer& committer, std::uint32_t requests);

  // Whether the commit of the step must wait.
  bool holds_commits(std::uint32_t requests) const {
    return holds_commits_ || (requests & kCopyUnderWay) != 0;
  }
  std::int64_t step() const { return step_; }  // of the copy under way, or the last one

  // Whether a snapshot of the newest commit is to be made, and has not been begun.
  bool wants_snapshot(const Committer& committer) const;
  // For a commit that cannot wait: ends the copy under way and makes all that are wanted.
  // Collective.
  std::vector<std::string> catch_up(const Committer& committer);

  // At the end of training: ends the copy under way, and makes those of the last commit but a
  // snapshot, which is the export. Collective.
  std::vector<std::string> finish(const Committer& committer);

  // After finish(): throws IoError, on all ranks, when the model could not be exported. Collective.
  void require_exported();

 private:
  // Folders of steps in one place.
  struct Series {
    std::unique_ptr<PortableWriter> writer;
    PortableContent content;
    std::string prefix;   // of their names
    std::int64_t every;   // steps; of the first commit after so many there is one
    std::int64_t newest;  // step; 0: none
  };

  void add_series(PortableContent content, const StepFolders& folders, std::int64_t every,
                  std::int64_t keep, std::int64_t begun_at);
  bool idle() const;
  static bool wants(const Series& series, const Committer& committer);
  void begin(Series& series, const Committer& committer);
  void begin(PortableWriter& writer, const std::string& name, const Committer& committer);
  // Ends the copy under way, and makes the wanted ones of these contents.
  std::vector<std::string> make_copies(const Committer& committer,
                                       std::initializer_list<PortableContent> contents);
  void show_whether_busy();

  const RunSetup& setup_;
  comm::Communicator& comm_;
  StepRequests& requests_;
  const store::Manifest& manifest_;
  nlohmann::json options_;
  nlohmann::json arithmetic_;
  std::string run_;  // its name
  PinnedBuffer memory_;
  store::BlockReader blocks_;
  store::CommitTable table_;  // of the commit that is copied
  std::int64_t step_ = 0;
  bool holds_commits_ = false;  // until the next step's collective
  std::vector<Series> series_;  // the first one that wants a commit gets it
  std::string export_failure_;
};

}  // namespace strata::engine
