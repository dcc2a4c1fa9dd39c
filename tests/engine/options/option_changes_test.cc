// Which options a run that goes on may not change, one by one, and how they may be allowed to.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/options/option_changes.h"
#include "engine/options/option_list.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

// Every option of the program stands in one of these two, on purpose.
const std::set<std::string> kMathematical = {
    "model",        "from-scratch",            // where the weights begin
    "data",         "val-fraction",            // keeps a part of --data from training
    "pack",         "overlong",                // what a sequence is
    "device",                                  // other kernels
    "global-batch", "micro-batch",  "pass",    // sums in another order
    "seq-len",      "steps",        "epochs",  // the schedule of the learning rate
    "optimizer",    "lr",           "lr-schedule", "warmup",       "min-lr",   "weight-decay",
    "beta1",        "beta2",        "eps",         "clip-norm",    "no-decay", "lr-scale",
    "moments",      "grad-dtype",   "precision",   "matmul-dtype", "isa",      "seed"};

const std::set<std::string> kOthers = {
    "val-data",  // only looked at
    "device-memory",
    "host-memory",
    "nvme",
    "place",
    "prefetch",
    "chunk-size",
    "activations",
    "recompute",     // the same numbers again
    "on-nonfinite",  // stop has no other weights than skip: it has none from there on
    "threads",       // tiles do not depend on them
    "machine",
    "vary",
    "plans",
    "measure",
    "refresh",
    "profile",
    "output",
    "run",
    "checkpoint-every",
    "resume",
    "resume-step",
    "resume-from",
    "allow-change",
    "checkpoint-to",
    "checkpoint-keep",
    "export",
    "export-every",
    "export-keep",
    "stop-within",
    "with-optimizer",
    "max-shard-size",
    "export-dtype",
    "dry-run",
    "force",
    "prompt",  // generating reads a model
    "prompt-ids",
    "max-tokens",
    "temperature",
    "top-k",
    "top-p",
    "stop-ids",
    "eval-every",
    "eval-batches",
    "sample-every",
    "sample-tokens",
    "sample-prompt",
    "log",
    "trace",
    "json",
    "io-engine",
    "io-timeout",
    "nvme-endurance",
    "comm-timeout",
    "blocks",
    "depths",
    "modes",
    "file-size",
    "cell-seconds",
    "checksums",
    "elements",
    "variants"};

TEST(OptionChanges, EveryOptionIsMathematicalOrNotOnPurpose) {
  std::set<std::string> mathematical;
  std::set<std::string> others;
  for (const OptionSpec& spec : option_list()) {
    (spec.mathematical ? mathematical : others).insert(spec.name);
  }
  EXPECT_EQ(mathematical, kMathematical);
  EXPECT_EQ(others, kOthers);
}

std::vector<std::string> names_of(const std::vector<OptionChange>& changes) {
  std::vector<std::string> names;
  for (const OptionChange& change : changes) names.push_back(change.name);
  return names;
}

TEST(OptionChanges, AreOfTheMathematicsOnly) {
  Options recorded;
  Options wanted;
  EXPECT_TRUE(changed_mathematics(recorded, wanted).empty());
  wanted.prefetch = 7;
  wanted.host_memory = 1 << 30;
  wanted.checkpoint_every = {5, 0};
  EXPECT_TRUE(changed_mathematics(recorded, wanted).empty());
  wanted.lr = 1e-3;
  wanted.pass = 4;
  const std::vector<OptionChange> changes = changed_mathematics(recorded, wanted);
  EXPECT_EQ(names_of(changes), (std::vector<std::string>{"pass", "lr"}));
  EXPECT_EQ(changes[0].recorded, "auto");
  EXPECT_EQ(changes[0].wanted, "4");
}

TEST(OptionChanges, TheLengthCountsWhereTheLearningRateDependsOnIt) {
  Options recorded;
  recorded.steps = 10;
  Options wanted;
  wanted.epochs = 2;
  EXPECT_EQ(names_of(changed_mathematics(recorded, wanted)),
            (std::vector<std::string>{"steps", "epochs"}));
  recorded.lr_schedule = wanted.lr_schedule = "constant";
  recorded.warmup = wanted.warmup = "100";
  EXPECT_TRUE(changed_mathematics(recorded, wanted).empty());
  recorded.warmup = wanted.warmup = "3%";
  EXPECT_EQ(names_of(changed_mathematics(recorded, wanted)),
            (std::vector<std::string>{"steps", "epochs"}));
}

TEST(OptionChanges, AreRefusedWithBothValuesAndTheWayOut) {
  Options recorded;
  Options wanted;
  wanted.seed = 5;
  wanted.lr = 1e-3;
  EXPECT_EQ(
      error_text<ConfigError>([&] { require_same_mathematics(recorded, wanted, "--run r"); }),
      "--run r: --lr was '0.0003' and is now '0.001', --seed was '1337' and is now '5', which "
      "would change what the run computes; give what it was, or --allow-change lr,seed");
  wanted.allow_change = {"seed"};
  EXPECT_PRED2(
      mentions,
      error_text<ConfigError>([&] { require_same_mathematics(recorded, wanted, "--run r"); }),
      "'0.001', which would change what the run computes; give what it was, or --allow-change "
      "seed,lr");
  wanted.allow_change = {"seed", "lr"};
  EXPECT_NO_THROW(require_same_mathematics(recorded, wanted, "--run r"));
}

TEST(OptionChanges, WhatDecidesTheArithmeticAllowsAnotherOne) {
  Options options;
  EXPECT_FALSE(allows_other_arithmetic(options));
  options.allow_change = {"lr", "steps"};
  EXPECT_FALSE(allows_other_arithmetic(options));
  for (const char* name : {"arithmetic", "isa", "matmul-dtype", "precision"}) {
    options.allow_change = {"lr", name};
    EXPECT_TRUE(allows_other_arithmetic(options)) << name;
  }
}

}  // namespace
}  // namespace strata::engine
