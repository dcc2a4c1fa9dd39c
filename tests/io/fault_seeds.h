// What the seeded fault tests share: the seeds they run, and the rules that a seed stands for.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "io/fault_rules.h"
#include "kernels/base/bytes.h"

namespace strata::io {

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

}  // namespace strata::io
