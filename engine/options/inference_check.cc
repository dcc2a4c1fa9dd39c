// What eval and generate refuse before anything is opened.
#include <cstdint>

#include "engine/options/option_check.h"
#include "engine/options/option_ranges.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// Of a pass; more have no use, and products of larger numbers would not be numbers any more.
constexpr std::int64_t kSequencesMax = 1 << 20;
constexpr double kTemperatureMax = 1e6;

void check_place(const Options& o) {
  if (o.place.empty() ||
      (o.place.starts_with("weights=") && o.place.find(',') == std::string::npos))
    return;
  throw_error<ConfigError>(
      "--place {}: a model that is only read has no state but its weights: weights=TIER", o.place);
}

void check_inference(const Options& o) {
  if (o.model.empty()) {
    throw ConfigError(
        "--model is missing: a Hugging Face folder, org/name, or the folder of a run");
  }
  check_device(o);
  check_tiers(o);
  check_arithmetic(o);
  check_timeouts(o);
  require_at_least("resume-step", o.resume_step, std::int64_t{0});
  if (o.resume_step && o.run.empty()) {
    throw_error<ConfigError>("--resume-step is of the checkpoints of a run, and --model {} is none",
                             o.model);
  }
  check_place(o);
}

}  // namespace

void check_eval_options(const Options& options) {
  check_inference(options);
  if (options.data.empty()) {
    throw ConfigError("--data is missing: a text or .bin file to evaluate on");
  }
  require_within("micro-batch", static_cast<double>(options.micro_batch), 1, kSequencesMax);
  if (options.pass) require_within("pass", static_cast<double>(*options.pass), 1, kSequencesMax);
  require_at_least("seq-len", options.seq_len, std::int64_t{1});
  require_at_least("eval-batches", options.eval_batches, std::int64_t{0});
}

void check_generate_options(const Options& options) {
  check_inference(options);
  if (options.prompt.empty() == options.prompt_ids.empty()) {
    throw ConfigError("give the text to go on from with --prompt, or tokens with --prompt-ids 1,2");
  }
  require_at_least("max-tokens", options.max_tokens, std::int64_t{1});
  require_within("temperature", options.temperature, 0, kTemperatureMax);
  require_at_least("top-k", options.top_k, std::int64_t{0});
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw_error<ConfigError>("--top-p is {}, but must be above 0 and at most 1", options.top_p);
  }
}

}  // namespace strata::engine
