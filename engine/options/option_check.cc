#include "engine/options/option_check.h"

#include <optional>

#include "engine/options/endurance.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr double kTimeoutMinS = 0.01;
constexpr double kTimeoutMaxS = 1e6;
constexpr double kEpochsMax = 1e6;
constexpr double kRateMax = 1e6;

template <typename T>
void require_at_least(const char* option, T value, T least) {
  if (value < least) {
    throw_error<ConfigError>("--{} is {}, but must be at least {}", option, value, least);
  }
}

template <typename T>
void require_at_least(const char* option, const std::optional<T>& value, T least) {
  if (value) require_at_least(option, *value, least);
}

void require_within(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    throw_error<ConfigError>("--{} is {}, but must be from {} to {}", option, value, least, most);
  }
}

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

void check_data(const Options& o) {
  if (o.model.empty()) throw ConfigError("--model is missing: a preset such as gpt2-124m");
  if (!(o.val_fraction >= 0 && o.val_fraction <= 0.5)) {
    throw_error<ConfigError>("--val-fraction is {}, but must be from 0 to 0.5", o.val_fraction);
  }
  if (!o.val_data.empty() && o.val_fraction > 0) {
    throw ConfigError("--val-data and --val-fraction exclude each other: give one of them");
  }
}

void check_tiers(const Options& o) {
  require_at_least("device-memory", o.device_memory, std::int64_t{1});
  require_at_least("host-memory", o.host_memory, std::int64_t{1});
  require_at_least("prefetch", o.prefetch, 0);
  if (o.chunk_size && *o.chunk_size < kMiB) {
    throw_error<ConfigError>("--chunk-size is {}, but must be at least {}",
                             format_bytes(*o.chunk_size), format_bytes(kMiB));
  }
  check_nvme(o);
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

void check_arithmetic(const Options& o) {
  if (o.precision == "f32" && o.matmul_dtype == "bf16") {
    throw ConfigError("--matmul-dtype bf16 needs --precision bf16");
  }
  require_at_least("threads", o.threads, 1);
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
  resolve_device(options);
  check_tiers(options);
  check_batch(options);
  check_optimizer(options);
  check_arithmetic(options);
  check_watching(options);
  check_timeouts(options);
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

std::string resolve_device(const Options& options) {
  if (options.device == "cuda") {
    throw ConfigError("--device cuda: this build has no CUDA device yet; use --device cpu");
  }
  return "cpu";
}

}  // namespace strata::engine
