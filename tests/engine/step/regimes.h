// Regimes: options that say where state lives, how far ahead it is read, how it is cut into
// transfers, what is recomputed and how many threads work, and which must therefore not change one
// bit of what a run computes. For the tests that say so of one arithmetic after another.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {

inline constexpr int kSteps = 4;
inline constexpr std::int64_t kValidationSequences = 5;

class Files {
 public:
  Files() {
    write_text(folder_.path("text.txt"), 20000);
    write_tokens(folder_.path("tokens.bin"), 400, kLargeVocabulary);
  }
  static constexpr std::uint32_t kLargeVocabulary = 33000;
  std::string text() const { return folder_.path("text.txt"); }
  std::string tokens() const { return folder_.path("tokens.bin"); }
  std::string nvme() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

inline const Files& files() {
  static const Files kFiles;
  return kFiles;
}

inline constexpr const char* kGpt2 = "gpt2:layers=3,hidden=48,heads=3,context=32";
// What is different from a GPT-2: RMSNorms, rotary positions, grouped queries, gates, no biases, a
// head of its own.
inline constexpr const char* kLlama =
    "llama:layers=3,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32";
// QK-norm as well, and heads that are wider than hidden / heads.
inline constexpr const char* kQwen3 =
    "qwen3:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,intermediate=80,context=32";

// Five sequences in micro-batches of two: three per step, the last one smaller.
inline engine::Options base_options() {
  engine::Options options;
  options.model = kGpt2;
  options.data = files().text();
  options.val_fraction = 0.1;
  options.nvme = files().nvme();
  options.device_memory = 48 * kMiB;
  options.host_memory = 48 * kMiB;
  options.global_batch = 5;
  options.micro_batch = 2;
  options.lr = 3e-3;
  options.matmul_dtype = forced_arithmetic("bf16");
  options.threads = 2;
  return options;
}

using Edit = std::function<void(engine::Options&)>;
struct Named {
  std::string name;
  Edit edit;
};

inline Edit placed(const std::string& place, const std::string& activations) {
  return [=](engine::Options& o) {
    o.place = place;
    o.activations = activations;
  };
}

// In the smallest budgets that a plan for these ranks fits in; none: for one on processors.
template <typename... Ranks>
void take_smallest_budgets(engine::Options& o, const Ranks&... ranks) {
  placed("all=nvme", "nvme")(o);
  o.prefetch = 0;
  o.chunk_size = 16 * kKiB;  // buffers for longer ones could as well hold all state
  o = with_smallest_budgets(o, ranks...);
  placed("", "auto")(o);
}

// The first is the reference. Those up to kEssentialRegimes run with every arithmetic.
inline constexpr std::size_t kEssentialRegimes = 6;
inline const std::vector<Named>& regimes() {
  static const std::vector<Named> kRegimes = {
      {"all_device", placed("all=device", "device")},
      {"all_host", placed("all=host", "host")},
      {"all_nvme", placed("all=nvme", "nvme")},
      {"smallest_budgets", [](engine::Options& o) { take_smallest_budgets(o); }},
      {"weights_on_device", placed("weights=device,moments=nvme,gradients=nvme", "host")},
      {"moments_on_device",
       placed("weights=nvme,remainder=host,moments=device,gradients=device", "nvme")},
      {"automatic", [](engine::Options&) {}},
      {"gradients_on_nvme", placed("weights=host,moments=host,gradients=nvme", "device")},
      {"remainder_on_device",
       placed("weights=nvme,remainder=device,moments=host,gradients=host", "host")},
      {"host_then_nvme_activations", placed("all=host", "nvme")},
      {"prefetch_0",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 0;
       }},
      {"prefetch_1",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 1;
       }},
      {"prefetch_4",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 4;
       }},
      {"prefetch_0_host",
       [](engine::Options& o) {
         placed("all=host", "host")(o);
         o.prefetch = 0;
       }},
      {"no_recompute_device",
       [](engine::Options& o) {
         placed("all=device", "device")(o);
         o.recompute = false;
       }},
      {"no_recompute_host",
       [](engine::Options& o) {
         placed("all=host", "host")(o);
         o.recompute = false;
       }},
      {"no_recompute_nvme",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.recompute = false;
         o.prefetch = 4;
       }},
      {"one_thread_device",
       [](engine::Options& o) {
         placed("all=device", "device")(o);
         o.threads = 1;
       }},
      {"one_thread_nvme",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.threads = 1;
       }},
      {"small_chunks_nvme",
       [](engine::Options& o) {
         placed("all=nvme", "nvme")(o);
         o.chunk_size = 16 * kKiB;
       }},
      {"odd_chunks_mixed",
       [](engine::Options& o) {
         placed("weights=device,moments=nvme", "host")(o);
         o.chunk_size = 48 * kKiB;
       }},
  };
  return kRegimes;
}

inline engine::Options options_of(const Named& arithmetic, const Named& regime) {
  engine::Options options = base_options();
  arithmetic.edit(options);
  regime.edit(options);
  return options;
}

inline void expect_same_bits(const RunResult& actual, const RunResult& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.grad_norms, expected.grad_norms);
  EXPECT_EQ(actual.validation_loss, expected.validation_loss);
  ASSERT_EQ(actual.masters.size(), expected.masters.size());
  for (std::size_t u = 0; u < expected.masters.size(); ++u) {
    EXPECT_TRUE(actual.masters[u] == expected.masters[u]) << "unit " << u;
  }
}

}  // namespace strata::test
