#include "engine/options/unknown_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

struct Advice {
  std::string_view name;
  std::string_view text;
};

// Settings of Hugging Face's Trainer and DeepSpeed that say something else than any option here.
constexpr Advice kAdvice[] = {
    {"gradient_accumulation_steps",
     "set --global-batch, the sequences per step: micro-batch x accumulation x ranks"},
    {"warmup_ratio", "write --warmup 3% for a ratio of 0.03"},
    {"validation_split_percentage", "write --val-fraction 0.05 for 5 percent"},
    {"bf16", "write --precision bf16"},
    {"fp16", "there is no fp16; write --precision bf16"},
    {"no_cuda", "write --device cpu"},
    {"use_cpu", "write --device cpu"},
    {"offload_optimizer", "write --place moments=nvme, or leave the placement to the plan"},
    {"offload_param", "write --place weights=nvme, or leave the placement to the plan"},
    {"cpu_offload", "write --place moments=host, or leave the placement to the plan"},
    {"lion", "write --optimizer lion"},
    {"adam_w_mode", "write --optimizer adamw, or adam for L2 instead of decoupled weight decay"},
    {"optim_bits", "write --moments int8 for 8-bit moments"},
    {"aio", "strata bench io --nvme DIR measures which settings suit a drive"},
    {"zero_stage", "every run partitions all state over its ranks (ZeRO stage 3)"},
    {"per_device_eval_batch_size", "evaluation uses --micro-batch"},
    {"do_eval", "--val-data or --val-fraction turns evaluation on"},
    {"logging_steps", "every step is logged, to --log or the folder of --run"},
    {"report_to", "export the log with scripts/log_export.py"},
    {"resume_from_checkpoint",
     "write --run DIR --resume, or --resume-from DIR for a portable checkpoint"},
    {"save_strategy", "write --checkpoint-every 50 (steps), 30min or 0"},
    {"local_rank", "ranks come from mpirun or srun"},
    {"nproc_per_node", "ranks come from mpirun or srun"},
};

std::string with_underscores(std::string_view name) {
  std::string folded(name);
  std::transform(folded.begin(), folded.end(), folded.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(c));
  });
  return folded;
}

}  // namespace

std::string explain_unknown_option(std::string_view name, const CommandSyntax& command) {
  const std::string folded = with_underscores(name);
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_list()) {
    if (!command.takes(spec)) continue;
    names.push_back(spec.name);
    if (std::find(spec.aliases.begin(), spec.aliases.end(), folded) != spec.aliases.end()) {
      return fmt::format("{} is --{} here", name, spec.name);
    }
  }
  for (const Advice& advice : kAdvice) {
    if (advice.name == folded) return std::string(advice.text);
  }
  const std::string near = nearest(name, names);
  return near.empty() ? fmt::format("see strata {} --help", command.name)
                      : fmt::format("did you mean --{}?", near);
}

}  // namespace strata::engine
