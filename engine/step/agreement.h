// How the error of one rank becomes one message and the end of all: what may fail on some ranks is
// done in agree(), and afterwards either all go on or all throw.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "engine/options/exit_code.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// A failure that every rank knows of.
class AgreedFailure final : public ExitError {
  using ExitError::ExitError;
};

// Collective. `mine` is this rank's failure, or null. Throws on all ranks if any has one: itself
// with one rank, otherwise an AgreedFailure that names the first rank, unless all say the same.
void raise_together(comm::Communicator& comm, std::exception_ptr mine);

// Whether all ranks say so. Collective.
bool all_agree(comm::Communicator& comm, bool mine);

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
