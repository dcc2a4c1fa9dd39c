// Checks of options: ranges, combinations, and what a command cannot do without.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>

#include "engine/options/option_check.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

Options valid_options() {
  Options options;
  options.model = "gpt2-124m";
  options.data = "text.txt";
  options.steps = 10;
  return options;
}

struct BadOptions {
  const char* mentions;
  std::function<void(Options&)> spoil;
};

TEST(CheckOptions, RefusesWhatIsOutOfRangeOrContradictory) {
  const BadOptions cases[] = {
      {"--model", [](Options& o) { o.model.clear(); }},
      {"--val-fraction", [](Options& o) { o.val_fraction = 0.6; }},
      {"--val-fraction", [](Options& o) { o.val_fraction = -0.1; }},
      {"exclude each other", [](Options& o) { o.val_data = "v.txt", o.val_fraction = 0.1; }},
      {"--device-memory", [](Options& o) { o.device_memory = 0; }},
      {"--host-memory", [](Options& o) { o.host_memory = 0; }},
      {"--prefetch", [](Options& o) { o.prefetch = -1; }},
      {"--chunk-size", [](Options& o) { o.chunk_size = kMiB - 1; }},
      {"--nvme: '/a,,/b'", [](Options& o) { o.nvme = "/a,,/b"; }},
      {"--nvme: '/a=fast'", [](Options& o) { o.nvme = "/a=fast"; }},
      {"--nvme: ", [](Options& o) { o.nvme = "/a,/b,/a"; }},
      {"--nvme-endurance: '600'", [](Options& o) { o.nvme_endurance = "600"; }},
      {"--nvme-endurance: 2 values",
       [](Options& o) { o.nvme = "/a,/b,/c", o.nvme_endurance = "1TBW,2TBW"; }},
      {"--global-batch", [](Options& o) { o.global_batch = 0; }},
      {"--micro-batch", [](Options& o) { o.micro_batch = 0; }},
      {"--micro-batch", [](Options& o) { o.micro_batch = o.global_batch + 1; }},
      {"--pass", [](Options& o) { o.pass = 0; }},
      {"--seq-len", [](Options& o) { o.seq_len = 0; }},
      {"--steps", [](Options& o) { o.steps = -1; }},
      {"exclude each other", [](Options& o) { o.epochs = 1; }},
      {"--lr", [](Options& o) { o.lr = -1e-3; }},
      {"--min-lr", [](Options& o) { o.min_lr = 2 * o.lr; }},
      {"--min-lr", [](Options& o) { o.min_lr = o.lr / 2, o.lr_schedule = "constant"; }},
      {"no CUDA device", [](Options& o) { o.device = "cuda"; }},
      {"--weight-decay", [](Options& o) { o.weight_decay = -1; }},
      {"--beta1", [](Options& o) { o.beta1 = 1; }},
      {"--beta2", [](Options& o) { o.beta2 = -0.1; }},
      {"--eps", [](Options& o) { o.eps = 0; }},
      {"--eps is 1e-50, as f32 0,", [](Options& o) { o.eps = 1e-50; }},
      {"--beta1 is 0.99999999, as f32 1,", [](Options& o) { o.beta1 = 0.99999999; }},
      {"--eps", [](Options& o) { o.optimizer = "lion", o.eps = 1e-6; }},
      {"--clip-norm", [](Options& o) { o.clip_norm = -1; }},
      {"--matmul-dtype", [](Options& o) { o.precision = "f32", o.matmul_dtype = "bf16"; }},
      {"--threads", [](Options& o) { o.threads = 0; }},
      {"--eval-every", [](Options& o) { o.eval_every = 5; }},
      {"--eval-batches", [](Options& o) { o.eval_batches = -1; }},
      {"--sample-tokens", [](Options& o) { o.sample_every = 5; }},
      {"--sample-prompt", [](Options& o) { o.sample_tokens = 5, o.sample_prompt.clear(); }},
      {"--resume needs", [](Options& o) { o.resume = true; }},
      {"--resume-from begins a run of its own", [](Options& o) { o.resume_from = "step-5"; }},
      {"--export writes the last checkpoint of a run", [](Options& o) { o.export_to = "hf"; }},
      {"--checkpoint-every 0",
       [](Options& o) {
         o.run = "runs", o.export_to = "hf", o.checkpoint_every = {0, 0};
       }},
      {"--resume-step needs", [](Options& o) { o.run = "runs", o.resume_step = 5; }},
      {"--resume-step is -1",
       [](Options& o) { o.run = "runs", o.resume = true, o.resume_step = -1; }},
      {"'prefetch' is no option that changes what is computed",
       [](Options& o) { o.run = "runs", o.resume = true, o.allow_change = {"prefetch"}; }},
      {"did you mean 'warmup'?",
       [](Options& o) {
         o.run = "runs", o.resume = true, o.allow_change = {"lr", "warm-up"};
       }},
      {"--allow-change needs", [](Options& o) { o.run = "runs", o.allow_change = {"arithmetic"}; }},
      {"--checkpoint-every needs",
       [](Options& o) {
         o.checkpoint_every = {50, 0};
       }},
      {"--checkpoint-every needs",
       [](Options& o) { o.checkpoint_every = kDefaultCheckpointInterval; }},
      {"--run DIR", [](Options& o) { o.checkpoint_to = "copies"; }},
      {"--checkpoint-every 0",
       [](Options& o) {
         o.run = "runs", o.checkpoint_to = "copies", o.checkpoint_every = {0, 0};
       }},
      {"--checkpoint-keep", [](Options& o) { o.checkpoint_keep = 0; }},
      {"--checkpoint-to DIR", [](Options& o) { o.run = "runs", o.checkpoint_keep = 3; }},
      {"--export-every is -1", [](Options& o) { o.export_every = -1; }},
      {"beside the folder of --export:", [](Options& o) { o.run = "runs", o.export_every = 5; }},
      {"--export-keep is 0", [](Options& o) { o.export_keep = 0; }},
      {"--export-every N", [](Options& o) { o.export_keep = 3; }},
      {"--stop-within", [](Options& o) { o.stop_within = -1; }},
      {"--run DIR", [](Options& o) { o.stop_within = 60; }},
      {"--io-timeout", [](Options& o) { o.io_timeout = 0; }},
      {"--comm-timeout", [](Options& o) { o.comm_timeout = -1; }},
  };
  EXPECT_NO_THROW(check_options(valid_options()));
  Options two_drives = valid_options();
  two_drives.nvme = "/a=7GB/s,/b";
  two_drives.nvme_endurance = "600TBW,1.2PBW";
  EXPECT_NO_THROW(check_options(two_drives));
  Options resumed = valid_options();
  resumed.run = "runs";
  resumed.resume = true;
  resumed.resume_step = 0;
  resumed.allow_change = {"arithmetic", "lr"};
  resumed.checkpoint_to = "copies";
  resumed.checkpoint_every = {1, 0};
  EXPECT_NO_THROW(check_options(resumed));
  resumed.resume_from = "step-5";  // where the folder has no run yet
  EXPECT_NO_THROW(check_options(resumed));
  for (const BadOptions& bad : cases) {
    Options options = valid_options();
    bad.spoil(options);
    EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_options(options); }), bad.mentions);
  }
}

TEST(CheckOptions, ExportHasTwoOperands) {
  Options options;
  options.arguments = {"run", "folder"};
  EXPECT_NO_THROW(check_export_options(options));
  options.max_shard_size = 1000;
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_export_options(options); }),
               "--max-shard-size");
  options.arguments = {"run"};
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_export_options(options); }),
               "strata export RUN DIR");
}

TEST(CheckOptions, TrainingNeedsDataAndALength) {
  EXPECT_NO_THROW(check_training_options(valid_options()));
  Options options = valid_options();
  options.data.clear();
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_training_options(options); }),
               "--data");
  options = valid_options();
  options.steps = 0;
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_training_options(options); }),
               "--steps");
  options.epochs = 0.5;
  EXPECT_NO_THROW(check_training_options(options));
}

TEST(ResolveDevice, CudaIsABackendOrAnErrorAndAutoOneOrAReason) {
  ::setenv("STRATA_CUDA_BACKEND", "/no/such/backend.so", 1);
  Options options;
  const CudaSearch of_auto = resolve_device(options);
  EXPECT_FALSE(of_auto.backend.has_value());
  EXPECT_PRED2(mentions, of_auto.reason, "/no/such/backend.so");
  options.device = "cpu";
  EXPECT_EQ(resolve_device(options).reason, "");
  options.device = "cuda";
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { resolve_device(options); }),
               "--device cuda: no CUDA device: ");
  ::unsetenv("STRATA_CUDA_BACKEND");
}

}  // namespace
}  // namespace strata::engine
