#include "engine/options/option_check.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/options/endurance.h"
#include "engine/options/option_list.h"
#include "engine/options/option_ranges.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

constexpr double kTimeoutMinS = 0.01;
constexpr double kTimeoutMaxS = 1e6;
constexpr double kEpochsMax = 1e6;
constexpr double kRateMax = 1e6;

// The optimizer computes with the nearest f32.
void require_positive(const char* option, double value) {
  const auto used = static_cast<float>(value);
  if (!(used > 0)) {
    throw_error<ConfigError>("--{} is {}, as f32 {}, but must be above 0", option, value, used);
  }
}

void require_decay(const char* option, double value) {
  const auto used = static_cast<float>(value);
  if (!(value >= 0 && used < 1)) {
    throw_error<ConfigError>("--{} is {}, as f32 {}, but must be at least 0 and below 1", option,
                             value, used);
  }
}

void check_allowed_changes(const Options& o) {
  std::vector<std::string> names = {kArithmeticChange};
  for (const OptionSpec& spec : option_list()) {
    if (spec.mathematical) names.push_back(spec.name);
  }
  for (const std::string& name : o.allow_change) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw_error<ConfigError>("--allow-change: '{}' is no option that changes what is computed{}",
                             name, did_you_mean(name, names));
  }
  if (!o.allow_change.empty() && !o.resume && o.resume_from.empty()) {
    throw ConfigError("--allow-change needs --resume or --resume-from: a new run changes nothing");
  }
}

void check_data(const Options& o) {
  if (o.model.empty()) {
    throw ConfigError(
        "--model is missing: a Hugging Face folder, org/name, or a shape to be trained from random "
        "weights, such as gpt2-124m");
  }
  if (!(o.val_fraction >= 0 && o.val_fraction <= 0.5)) {
    throw_error<ConfigError>("--val-fraction is {}, but must be from 0 to 0.5", o.val_fraction);
  }
  if (!o.val_data.empty() && o.val_fraction > 0) {
    throw ConfigError("--val-data and --val-fraction exclude each other: give one of them");
  }
}

void check_batch(const Options& o) {
  require_at_least("global-batch", o.global_batch, std::int64_t{1});
  require_at_least("micro-batch", o.micro_batch, std::int64_t{1});
  if (o.micro_batch > o.global_batch) {
    throw_error<ConfigError>("--micro-batch {} is more than the --global-batch of {}",
                             o.micro_batch, o.global_batch);
  }
  require_at_least("pass", o.pass, std::int64_t{1});
  require_at_least("seq-len", o.seq_len, std::int64_t{1});
  require_at_least("steps", o.steps, std::int64_t{0});
  require_within("epochs", o.epochs, 0, kEpochsMax);
  if (o.steps > 0 && o.epochs > 0) {
    throw ConfigError("--steps and --epochs exclude each other: give one of them");
  }
}

void check_optimizer(const Options& o) {
  require_within("lr", o.lr, 0, kRateMax);
  require_at_least("min-lr", o.min_lr, 0.0);
  if (o.min_lr > o.lr) {
    throw_error<ConfigError>("--min-lr {} is above the --lr of {}", o.min_lr, o.lr);
  }
  if (o.min_lr > 0 && o.lr_schedule == "constant") {
    throw ConfigError("--min-lr has no meaning with --lr-schedule constant");
  }
  require_within("weight-decay", o.weight_decay, 0, kRateMax);
  require_decay("beta1", o.beta1);
  require_decay("beta2", o.beta2);
  require_positive("eps", o.eps);  // moments in bf16 and int8 may well be zero
  if (o.optimizer == "lion" && o.eps != Options().eps) {
    throw ConfigError("--eps has no meaning with --optimizer lion, which divides by nothing");
  }
  require_at_least("clip-norm", o.clip_norm, 0.0);
}

void check_resume(const Options& o) {
  if (o.resume && o.run.empty()) {
    throw ConfigError("--resume needs the folder of the run: --run DIR");
  }
  if (!o.resume_from.empty() && o.run.empty()) {
    throw ConfigError("--resume-from begins a run of its own: give --run DIR too");
  }
  if (o.resume_step && !o.resume) throw ConfigError("--resume-step needs --run DIR --resume");
  require_at_least("resume-step", o.resume_step, std::int64_t{0});
  check_allowed_changes(o);
}

void check_checkpoints(const Options& o) {
  if (o.checkpoint_every && o.run.empty()) {
    throw ConfigError("--checkpoint-every needs a folder for the checkpoints: --run DIR");
  }
  if (!o.checkpoint_to.empty() && o.run.empty()) {
    throw ConfigError("--checkpoint-to copies the checkpoints of a run: give --run DIR too");
  }
  if (!o.checkpoint_to.empty() && o.checkpoint_every && o.checkpoint_every->never()) {
    throw ConfigError("--checkpoint-to copies checkpoints, and --checkpoint-every 0 makes none");
  }
  if (!o.export_to.empty() && o.run.empty()) {
    throw ConfigError("--export writes the last checkpoint of a run: give --run DIR too");
  }
  if (!o.export_to.empty() && o.checkpoint_every && o.checkpoint_every->never()) {
    throw ConfigError("--export writes the last checkpoint, and --checkpoint-every 0 makes none");
  }
  require_at_least("checkpoint-keep", o.checkpoint_keep, std::int64_t{1});
  if (o.checkpoint_to.empty() && o.checkpoint_keep != Options().checkpoint_keep) {
    throw ConfigError("--checkpoint-keep counts the copies of --checkpoint-to DIR: give that too");
  }
  require_at_least("export-every", o.export_every, std::int64_t{0});
  if (o.export_every > 0 && o.export_to.empty()) {
    throw ConfigError(
        "--export-every writes snapshots beside the folder of --export: give that too");
  }
  require_at_least("export-keep", o.export_keep, std::int64_t{1});
  if (o.export_every == 0 && o.export_keep != Options().export_keep) {
    throw ConfigError("--export-keep counts the snapshots of --export-every N: give that too");
  }
  require_within("stop-within", o.stop_within, 0, kTimeoutMaxS);
  if (o.run.empty() && o.stop_within != Options().stop_within) {
    throw ConfigError("--stop-within is for a run that can be resumed: give --run DIR too");
  }
}

void check_watching(const Options& o) {
  require_at_least("eval-every", o.eval_every, std::int64_t{0});
  require_at_least("eval-batches", o.eval_batches, std::int64_t{0});
  if (o.eval_every > 0 && o.val_data.empty() && o.val_fraction == 0) {
    throw ConfigError("--eval-every needs validation data: --val-data or --val-fraction");
  }
  require_at_least("sample-every", o.sample_every, std::int64_t{0});
  require_at_least("sample-tokens", o.sample_tokens, std::int64_t{0});
  if (o.sample_every > 0 && o.sample_tokens == 0) {
    throw ConfigError("--sample-every needs the length of a sample: --sample-tokens");
  }
  if (o.sample_tokens > 0 && o.sample_prompt.empty()) {
    throw ConfigError("--sample-prompt is empty: a sample needs a token to go on from");
  }
}

}  // namespace

void check_options(const Options& options) {
  check_data(options);
  check_device(options);
  check_tiers(options);
  check_batch(options);
  check_optimizer(options);
  check_arithmetic(options);
  check_resume(options);
  check_checkpoints(options);
  check_watching(options);
  check_timeouts(options);
}

void check_tiers(const Options& options) {
  require_at_least("device-memory", options.device_memory, std::int64_t{1});
  require_at_least("host-memory", options.host_memory, std::int64_t{1});
  require_at_least("prefetch", options.prefetch, 0);
  if (options.chunk_size && *options.chunk_size < kMiB) {
    throw_error<ConfigError>("--chunk-size is {}, but must be at least {}",
                             format_bytes(*options.chunk_size), format_bytes(kMiB));
  }
  check_nvme(options);
}

void check_arithmetic(const Options& options) {
  if (options.precision == "f32" && options.matmul_dtype == "bf16") {
    throw ConfigError("--matmul-dtype bf16 needs --precision bf16");
  }
  require_at_least("threads", options.threads, 1);
}

void check_nvme(const Options& options) {
  std::size_t directories = 1;  // the folder of --run
  if (!options.nvme.empty()) {
    name_in_errors("nvme", [&] { directories = io::parse_directories(options.nvme).size(); });
  }
  name_in_errors("nvme-endurance", [&] { parse_endurance(options.nvme_endurance, directories); });
}

void check_timeouts(const Options& options) {
  require_within("io-timeout", options.io_timeout, kTimeoutMinS, kTimeoutMaxS);
  require_within("comm-timeout", options.comm_timeout, kTimeoutMinS, kTimeoutMaxS);
}

void check_training_options(const Options& options) {
  if (options.data.empty()) throw ConfigError("--data is missing: a text or .bin file to train on");
  if (options.steps == 0 && options.epochs == 0) {
    throw ConfigError("nothing to train: --steps or --epochs must be above 0");
  }
}

void check_export_options(const Options& options) {
  if (options.arguments.size() != 2) {
    throw ConfigError("export: name the run and the new folder: strata export RUN DIR");
  }
  require_at_least("max-shard-size", options.max_shard_size, kMiB);
}

void check_device(const Options& options) {
  if (options.device == "cuda" && options.machine.empty()) (void)resolve_device(options);
}

CudaSearch resolve_device(const Options& options) {
  if (options.device == "cpu") return {};
  CudaSearch search = find_cuda_backend();
  if (options.device == "cuda" && !search.backend) {
    throw_error<ConfigError>("--device cuda: no CUDA device: {}; use --device cpu", search.reason);
  }
  return search;
}

}  // namespace strata::engine
