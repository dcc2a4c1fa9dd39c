// The ranks of a run, and how the error of one becomes one message and the end of all.
//
// Until training starts, whatever may fail is done in agree(): every rank learns of a failure on
// any, rank 0 alone prints it, and all end in order. A failure after that is printed by the rank
// that met it, which aborts the others; those that only lost a peer say so themselves.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/options/options.h"
#include "engine/plan/rank_device.h"
#include "engine/step/agreement.h"
#include "kernels/base/failure_latch.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// What a command gets of its rank.
struct Ranks {
  comm::Communicator& comm;
  FailureLatch& failure;
  std::string binding;  // what was done about the launcher's binding to cores; may be empty
  RankDevice device;    // of commands that compute (rank_devices.h); otherwise the cpu device
};

// Joins the ranks of this run (MPI where a launcher started several, otherwise this process alone)
// and runs `command` with the options that `read_options` returns. Returns the exit code. With one
// rank, throws what the two throw; with several, errors are reported here.
int run_on_ranks(const std::function<Options()>& read_options,
                 const std::function<int(const Options&, Ranks&)>& command);

std::chrono::milliseconds comm_timeout(const Options& options);

struct SharedSetting {
  std::string name;  // "--lr"
  std::string value;
};

// Of the options, those that ranks may not choose for themselves.
std::vector<SharedSetting> shared_options(const Options& options);

// Collective. Throws an AgreedFailure on all ranks, naming the first setting whose value is not the
// same on all: ranks that disagree about the mathematics would train different models, or wait for
// each other. The names are the same everywhere.
void require_same(comm::Communicator& comm, const std::vector<SharedSetting>& settings);

}  // namespace strata::engine
