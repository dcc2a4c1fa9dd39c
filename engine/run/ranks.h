// The ranks of a run, and how the error of one becomes one message and the end of all.
//
// Until training starts, whatever may fail is done in agree(): every rank learns of a failure on
// any, rank 0 alone prints it, and all end in order. A failure after that is printed by the rank
// that met it, which aborts the others; those that only lost a peer say so themselves.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/options/options.h"
#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// What a command gets of its rank.
struct Ranks {
  comm::Communicator& comm;
  FailureLatch& failure;
  std::string binding;  // what was done about the launcher's binding to cores; may be empty
};

// Joins the ranks of this run (MPI where a launcher started several, otherwise this process alone)
// and runs `command` with the options that `read_options` returns. Returns the exit code. With one
// rank, throws what the two throw; with several, errors are reported here.
int run_on_ranks(const std::function<Options()>& read_options,
                 const std::function<int(const Options&, Ranks&)>& command);

// A failure that every rank knows of.
class AgreedFailure : public Error {
 public:
  AgreedFailure(const std::string& message, int exit_code)
      : Error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// Collective. `mine` is this rank's failure, or null. Throws on all ranks if any has one: itself
// with one rank, otherwise an AgreedFailure that names the first rank, unless all say the same.
void raise_together(comm::Communicator& comm, std::exception_ptr mine);

struct SharedSetting {
  std::string name;  // "--lr"
  std::string value;
};

// Collective. Throws an AgreedFailure on all ranks, naming the first setting whose value is not the
// same on all: ranks that disagree about the mathematics would train different models, or wait for
// each other. The names are the same everywhere.
void require_same(comm::Communicator& comm, const std::vector<SharedSetting>& settings);

// Runs `work`, which is not collective, on every rank and returns its result if it succeeds on all;
// otherwise throws as raise_together().
template <typename Work>
auto agree(comm::Communicator& comm, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  std::exception_ptr failure;
  if constexpr (std::is_void_v<Result>) {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    raise_together(comm, failure);
  } else {
    std::optional<Result> result;
    try {
      result.emplace(work());
    } catch (...) {
      failure = std::current_exception();
    }
    raise_together(comm, failure);
    return std::move(*result);
  }
}

}  // namespace strata::engine
