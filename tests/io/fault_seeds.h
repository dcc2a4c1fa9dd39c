// What the seeded fault tests share: the seeds they run, the storage that a seed stands for, and
// which error is whose.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "io/engine_storage.h"
#include "io/fault_engine.h"
#include "kernels/base/bytes.h"
#include "tests/support/error_text.h"

namespace strata::io {

using test::mentions;

inline constexpr const char* kSeedVariable = "STRATA_FAULT_SEED";

inline std::string how_to_repeat(std::uint64_t seed) {
  return fmt::format("seed {}; to run it alone: {}={}", seed, kSeedVariable, seed);
}

// For the handler of SIGABRT: a failed STRATA_CHECK, too, is to print its seed.
inline std::atomic<std::uint64_t> running_seed{0};

// Runs `body(seed)`, which returns what went wrong or "", for 1..count, or for the one seed in the
// environment. Stops at the first that fails and says how to run it again.
template <typename Body>
void for_each_seed(std::uint64_t count, const Body& body) {
  std::signal(SIGABRT, [](int) { fmt::print(stderr, "{}\n", how_to_repeat(running_seed)); });
  const char* const only = std::getenv(kSeedVariable);
  const std::uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const std::uint64_t last = only == nullptr ? count : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    running_seed = seed;
    const std::string problem = body(seed);
    ASSERT_EQ(problem, "") << how_to_repeat(seed);
  }
}

inline bool runs_all_seeds() { return std::getenv(kSeedVariable) == nullptr; }

// A random mix: each fault is there or not, rare or frequent.
inline FaultRules rules_of_seed(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  FaultRules rules;
  rules.seed = seed;
  rules.delay_us_max = one_in(3) ? 0 : 60;
  for (const Fault fault : {Fault::error, Fault::short_transfer, Fault::read_flip,
                            Fault::write_flip, Fault::lost_write, Fault::misdirected_write}) {
    if (one_in(3)) rules = rules.with(fault, one_in(2) ? 0.005 : 0.05);
  }
  // Each costs the pause before a retry.
  if (one_in(3)) rules = rules.with(Fault::interruption, 0.01);
  if (one_in(6)) rules.full_after_bytes = static_cast<std::int64_t>(random() % kMiB);
  // Either ends the storage.
  if (one_in(10)) rules = rules.with(Fault::duplicate_completion, 0.01);
  if (one_in(10)) rules.lose_completion = static_cast<std::int64_t>(random() % 100);
  return rules;
}

// The storage that a seed stands for, on `engine`.
inline EngineStorageOptions options_of_seed(const FaultEngine& engine, const FaultRules& rules) {
  std::mt19937_64 random(~rules.seed);
  EngineStorageOptions options;
  options.path = engine.description();
  options.capacity_bytes = engine.capacity_bytes();
  options.alignment_bytes = kPageBytes;
  options.request_bytes_max = static_cast<std::int64_t>(1 + random() % 4) * kPageBytes;
  options.queue_depth = static_cast<int>(1 + random() % 16);
  // Without a lost completion none may be reported, however slow the machine.
  options.timeout = rules.lose_completion < 0 ? std::chrono::milliseconds(600'000)
                                              : std::chrono::milliseconds(16);
  return options;
}

// Whether the storage failed for good: nothing works any more, and memory of requests in flight may
// still be the engine's.
inline bool ends_storage(const std::string& failure) {
  return mentions(failure, "--io-timeout") || mentions(failure, "answered one twice");
}

// Whether `failure` is the error of one of these faults. `befell(fault)`: whether it may be of one
// of the requests that failed, by its place.
template <typename Befell>
bool is_error_of(const std::vector<InjectedFault>& faults, const std::string& failure,
                 const Befell& befell) {
  // Only where a completion is to be lost is the timeout one that can be reached; a busy machine
  // may reach it before that.
  if (mentions(failure, "--io-timeout")) return true;
  return std::ranges::any_of(faults, [&](const InjectedFault& fault) {
    switch (fault.fault) {
      case Fault::duplicate_completion:
        return mentions(failure, "answered one twice");
      case Fault::error:
        return failure.ends_with("(errno 5)") && befell(fault);
      case Fault::full:
        return failure.ends_with("(errno 28)") && befell(fault);
      default:
        return false;
    }
  });
}

}  // namespace strata::io
