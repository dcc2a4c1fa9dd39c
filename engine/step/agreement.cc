#include "engine/step/agreement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace strata::engine {

namespace {

// What ranks tell each other; exit_code 0: no failure.
struct Verdict {
  std::int32_t exit_code = 0;
  std::array<char, 1020> text{};

  bool operator==(const Verdict&) const = default;
};

Verdict verdict_of(const std::exception_ptr& failure) {
  Verdict verdict;
  if (failure == nullptr) return verdict;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    verdict.exit_code = exit_code_of(error);
    const std::string_view what = error.what();
    std::copy_n(what.data(), std::min(what.size(), verdict.text.size() - 1), verdict.text.data());
  }
  return verdict;
}

}  // namespace

void raise_together(comm::Communicator& comm, std::exception_ptr mine) {
  if (comm.world_size() == 1) {
    if (mine) std::rethrow_exception(mine);
    return;
  }
  const Verdict verdict = verdict_of(mine);
  std::vector<Verdict> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(&verdict, 1)),
                       std::as_writable_bytes(std::span(all)));
  const auto first = std::ranges::find_if(all, [](const Verdict& v) { return v.exit_code != 0; });
  if (first == all.end()) return;
  const bool alike = std::ranges::all_of(all, [&](const Verdict& v) { return v == *first; });
  const std::string text = first->text.data();
  throw AgreedFailure(alike ? text : fmt::format("rank {}: {}", first - all.begin(), text),
                      first->exit_code);
}

bool all_agree(comm::Communicator& comm, bool mine) {
  const auto vote = static_cast<std::byte>(mine);
  std::vector<std::byte> votes(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::span(&vote, 1), votes);
  return std::ranges::all_of(votes, [](std::byte v) { return v != std::byte{0}; });
}

}  // namespace strata::engine
