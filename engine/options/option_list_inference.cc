// What eval and generate take: options of their own, and those of training that say the same of a
// model that is only read.
#include <algorithm>
#include <array>

#include "engine/options/option_list_builder.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr std::array kInferenceCommands = {CommandKind::eval, CommandKind::generate};

const CommandSet kEval = {CommandKind::eval};
const CommandSet kEvalAndGenerate = {CommandKind::eval, CommandKind::generate};

}  // namespace

void ListBuilder::share(std::string_view name, CommandSet commands, std::string help) {
  const auto spec = std::ranges::find(list_, name, &OptionSpec::name);
  STRATA_CHECK(spec != list_.end(), "there is no option --{}", name);
  spec->used_by |= commands;
  if (help.empty()) return;
  for (const CommandKind command : kInferenceCommands) {
    if (commands.contains(command)) spec->help_of[command] = help;
  }
}

void add_generating(ListBuilder& list) {
  list.group(OptionGroup::generating);
  list.used_by({CommandKind::generate});
  list.add("prompt", "Text to go on from, for models with a byte-level tokenizer",
           text_field("TEXT", &Options::prompt));
  list.add("prompt-ids", "Ids of tokens to go on from, instead of --prompt",
           text_field("ID,...", &Options::prompt_ids));
  list.add("max-tokens", "Tokens to generate, unless the model ends before",
           integer_field(&Options::max_tokens));
  list.add("temperature",
           "What logits are divided by before a token is drawn; 0 takes the likeliest",
           number_field("NUMBER", &Options::temperature));
  list.add("top-k", "Likeliest tokens that are drawn from; 0 is all",
           integer_field(&Options::top_k));
  list.add("top-p", "Probability that the likeliest tokens drawn from add up to; 1 is all",
           number_field("0..1", &Options::top_p));
  list.add("stop-ids",
           "Tokens that end the text; unset, those that the model's configuration names",
           list_field("ID,...", &Options::stop_ids))
      .shows_default = false;
}

void share_with_inference(ListBuilder& list) {
  list.share(
      "model", kEvalAndGenerate,
      "The model: a Hugging Face folder, org/name in the local cache, or the folder of a "
      "run, whose newest checkpoint it is then. A shape has no weights, but for --from-scratch");
  list.share("from-scratch", kEvalAndGenerate, "Take random weights, for the shape of a model");
  list.share("resume-step", kEvalAndGenerate,
             "Step of the run's checkpoint to read; auto is the newest");
  list.share("data", kEval,
             "Data to evaluate on: token files, or text for a byte-level model, as for training");
  for (const char* name : {"pack", "overlong"}) list.share(name, kEval);

  for (const char* name : {"device", "device-memory", "host-memory", "prefetch"}) {
    list.share(name, kEvalAndGenerate);
  }
  list.share("nvme", kEvalAndGenerate,
             "Directories for weights that fit no memory, one for each drive; without it, the "
             "folder of the run that is read. Nothing stays there");
  list.share("place", kEvalAndGenerate,
             "Tier of the weights (device, host, nvme), as in weights=host; unset, the plan "
             "chooses");
  list.share("activations", kEval, "Tier of the activations between blocks");

  list.share("micro-batch", kEval);
  list.share("pass", kEval,
             "Micro-batches that go through a unit while it is resident; auto has about 8,192 "
             "tokens, fewer where memory is short");
  list.share("seq-len", kEval,
             "Tokens per sequence; auto is what the run that is read has, otherwise the model's "
             "context, at most 2,048");
  list.share("eval-batches", kEval, "Micro-batches to evaluate; 0 is all of the data");

  for (const char* name : {"precision", "matmul-dtype", "isa", "threads"}) {
    list.share(name, kEvalAndGenerate);
  }
  list.share("seed", kEval, "Seed of random weights");
  list.share("seed", {CommandKind::generate}, "Seed of the draws, and of random weights");
  for (const char* name : {"json", "io-engine", "io-timeout", "comm-timeout"}) {
    list.share(name, kEvalAndGenerate);
  }
}

}  // namespace strata::engine
