#include "engine/run/generate_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/options/json_text.h"
#include "engine/plan/device_choice.h"
#include "engine/plan/prompt.h"
#include "engine/run/error_report.h"
#include "engine/run/generated_text.h"
#include "engine/run/inference_run.h"
#include "engine/run/text_format.h"
#include "engine/step/agreement.h"
#include "engine/step/generation.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

using Clock = std::chrono::steady_clock;

bool fits(Options options, std::int64_t max_tokens, const Ranks& ranks) {
  options.max_tokens = max_tokens;
  try {
    make_run_setup(options, ranks.comm.topology(), ranks.comm.staging_bytes(),
                   offload::kBlockElements, Purpose::inference, ranks.device);
    return true;
  } catch (const PlanDoesNotFit&) {
    return false;
  }
}

// A cache that is too large becomes an error that says how many tokens would fit.
ReadableModel read_model_to_generate(const Options& options, Ranks& ranks) {
  try {
    return read_model(options, ranks);
  } catch (const PlanDoesNotFit& e) {
    std::int64_t fitting = 0;
    std::int64_t too_many = options.max_tokens;
    while (fitting + 1 < too_many) {
      const std::int64_t middle = fitting + (too_many - fitting) / 2;
      (fits(options, middle, ranks) ? fitting : too_many) = middle;
    }
    if (fitting == 0) throw;
    throw PlanDoesNotFit(fmt::format("{}; or use --max-tokens {}", e.what(), fitting),
                         e.shortfall());
  }
}

// What is generated, and how.
struct Task {
  std::vector<std::int32_t> prompt;
  GenerationRequest request;
  std::string tokenizer;  // the text of tokenizer.json, or ""
};

Task make_task(const RunSetup& setup) {
  const Options& options = setup.options;
  TextFormat format = read_text_format(setup);
  Task task;
  task.prompt = prompt_tokens(options, setup.source);
  task.tokenizer = std::move(format.tokenizer);
  task.request.choice = {options.temperature, options.top_k, options.top_p};
  task.request.seed = options.seed;
  task.request.max_tokens = options.max_tokens;
  task.request.positions = setup.decode.positions;
  task.request.end_tokens =
      options.stop_ids.empty() ? std::move(format.end_tokens) : stop_tokens(options, setup.model);
  return task;
}

const char* name_of(GenerationEnd end) {
  switch (end) {
    case GenerationEnd::enough:
      return "max tokens";
    case GenerationEnd::end_token:
      return "end token";
    case GenerationEnd::sequence_full:
      return "context";
  }
  return "";
}

struct Generated {
  std::vector<std::int32_t> tokens;
  std::string text;
  GenerationEnd end;
  double prompt_seconds = 0;  // until the first token
  double seconds = 0;         // for the others
};

enum class Output : std::uint8_t { streamed, kept };

void show(const std::string& piece) {
  const bool shown = std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size() &&
                     std::fflush(stdout) == 0;
  if (!shown) throw IoError("cannot write to standard output");
}

// Collective: all ranks end where one cannot show what it is to show.
Generated run_task(const Task& task, Inference& inference, GeneratedText& text, Output output,
                   comm::Communicator& comm) {
  Generated result;
  const auto put = [&](const std::string& piece) {
    result.text += piece;
    agree(comm, [&] {
      if (output == Output::streamed) show(piece);
    });
  };
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const Clock::time_point begin = Clock::now();
  result.end = generate(
      task.request, task.prompt,
      [&](std::span<const std::int32_t> tokens) {
        const auto logits = inference.next_logits(tokens);
        if (result.prompt_seconds == 0) result.prompt_seconds = seconds_since(begin);
        return logits;
      },
      [&](std::int32_t token) {
        result.tokens.push_back(token);
        put(text.add(token));
      });
  put(text.finish());
  result.seconds = seconds_since(begin) - result.prompt_seconds;
  return result;
}

void report(const RunSetup& setup, const Task& task, const GeneratedText& text,
            const Generated& result) {
  const auto further = static_cast<double>(result.tokens.size()) - 1;
  const double tokens_per_s = further > 0 ? further / result.seconds : 0;
  if (setup.options.json) {
    nlohmann::json line = {{"prompt_ids", task.prompt},
                           {"ids", result.tokens},
                           {"ended_by", name_of(result.end)},
                           {"prompt_seconds", result.prompt_seconds},
                           {"tokens_per_s", tokens_per_s}};
    if (text.is_text()) line["text"] = result.text;
    fmt::print("{}\n", json_text(line, -1));
  } else {
    fmt::print("\n");
  }
  std::fflush(stdout);
  if (result.end == GenerationEnd::sequence_full) {
    print_notice(fmt::format("the text ends where the model's context of {} tokens is full",
                             setup.model.context));
  }
  print_notice(fmt::format("{} tokens of prompt in {:.2f} s, then {:.1f} tokens/s; device {}",
                           task.prompt.size(), result.prompt_seconds, tokens_per_s,
                           device_choice(setup)));
}

}  // namespace

int run_generate(const Options& options, Ranks& ranks) {
  ReadableModel model = read_model_to_generate(options, ranks);
  const Task task = agree(ranks.comm, [&] { return make_task(model.setup); });
  GeneratedText text(model.setup.model, task.tokenizer);
  text.begin(task.prompt);
  const bool speaks = ranks.comm.rank() == 0;
  InferenceRun run(model, ranks);
  const Output output = speaks && !options.json ? Output::streamed : Output::kept;
  const Generated result = run_task(task, run.inference(), text, output, ranks.comm);
  if (speaks) report(run.setup(), task, text, result);
  return 0;
}

}  // namespace strata::engine
