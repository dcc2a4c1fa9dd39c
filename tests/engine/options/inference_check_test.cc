// What eval and generate take, and refuse before they open anything.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "engine/options/option_check.h"
#include "engine/options/option_help.h"
#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

const CommandSyntax kEval{"eval", "", CommandKind::eval};
const CommandSyntax kGenerate{"generate", "", CommandKind::generate};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Options valid_eval() {
  Options options = default_options(CommandKind::eval);
  options.model = "folder";
  options.data = "text.txt";
  return options;
}

Options valid_generate() {
  Options options = default_options(CommandKind::generate);
  options.model = "folder";
  options.prompt = "Once";
  return options;
}

struct BadOptions {
  const char* mentions;
  std::function<void(Options&)> spoil;
};

const BadOptions kBadForBoth[] = {
    {"--model", [](Options& o) { o.model.clear(); }},
    {"--device cuda", [](Options& o) { o.device = "cuda"; }},
    {"--device-memory", [](Options& o) { o.device_memory = 0; }},
    {"--host-memory", [](Options& o) { o.host_memory = 0; }},
    {"--prefetch", [](Options& o) { o.prefetch = -1; }},
    {"--threads", [](Options& o) { o.threads = 0; }},
    {"--matmul-dtype", [](Options& o) { o.precision = "f32", o.matmul_dtype = "bf16"; }},
    {"--resume-step", [](Options& o) { o.resume_step = 3; }},
    {"--resume-step", [](Options& o) { o.run = "run", o.resume_step = -3; }},
    {"--place", [](Options& o) { o.place = "moments=nvme"; }},
    {"--place", [](Options& o) { o.place = "weights=nvme,gradients=host"; }},
    {"--nvme: '/a,,/b'", [](Options& o) { o.nvme = "/a,,/b"; }},
    {"--io-timeout", [](Options& o) { o.io_timeout = 0; }},
};

TEST(CheckInference, EvalRefusesWhatIsOutOfRange) {
  EXPECT_NO_THROW(check_eval_options(valid_eval()));
  std::vector<BadOptions> cases(std::begin(kBadForBoth), std::end(kBadForBoth));
  cases.push_back({"--data", [](Options& o) { o.data.clear(); }});
  cases.push_back({"--micro-batch", [](Options& o) { o.micro_batch = 0; }});
  cases.push_back({"--micro-batch", [](Options& o) { o.micro_batch = std::int64_t{1} << 62; }});
  cases.push_back({"--pass", [](Options& o) { o.pass = 0; }});
  cases.push_back({"--pass", [](Options& o) { o.pass = std::int64_t{1} << 62; }});
  cases.push_back({"--seq-len", [](Options& o) { o.seq_len = 0; }});
  cases.push_back({"--eval-batches", [](Options& o) { o.eval_batches = -1; }});
  for (const BadOptions& bad : cases) {
    Options options = valid_eval();
    bad.spoil(options);
    EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_eval_options(options); }),
                 bad.mentions);
  }
}

TEST(CheckInference, GenerateRefusesWhatIsOutOfRange) {
  EXPECT_NO_THROW(check_generate_options(valid_generate()));
  std::vector<BadOptions> cases(std::begin(kBadForBoth), std::end(kBadForBoth));
  cases.push_back({"--prompt", [](Options& o) { o.prompt.clear(); }});
  cases.push_back({"--prompt-ids", [](Options& o) { o.prompt_ids = "12"; }});
  cases.push_back({"--max-tokens", [](Options& o) { o.max_tokens = 0; }});
  cases.push_back({"--temperature", [](Options& o) { o.temperature = -0.1; }});
  cases.push_back({"--temperature", [](Options& o) { o.temperature = kNaN; }});
  cases.push_back({"--top-k", [](Options& o) { o.top_k = -1; }});
  cases.push_back({"--top-p", [](Options& o) { o.top_p = 0; }});
  cases.push_back({"--top-p", [](Options& o) { o.top_p = 1.1; }});
  cases.push_back({"--top-p", [](Options& o) { o.top_p = kNaN; }});
  for (const BadOptions& bad : cases) {
    Options options = valid_generate();
    bad.spoil(options);
    EXPECT_PRED2(mentions, error_text<ConfigError>([&] { check_generate_options(options); }),
                 bad.mentions);
  }
}

TEST(InferenceOptions, EvalTakesAllOfItsDataUnlessToldOtherwise) {
  const Options defaults = default_options(CommandKind::eval);
  EXPECT_EQ(parse_options(kEval, {}, defaults).eval_batches, 0);
  EXPECT_EQ(parse_options(kEval, {"--eval-batches", "7"}, defaults).eval_batches, 7);
  EXPECT_PRED2(mentions, options_help(kEval), "0 is all of the data [0]");
  EXPECT_EQ(default_options(CommandKind::train).eval_batches, Options().eval_batches);
}

TEST(InferenceOptions, EachCommandRefusesTheOthers) {
  const auto refusal = [](const CommandSyntax& command, const char* option) {
    return error_text<ConfigError>([&] { parse_options(command, {option, "1"}); });
  };
  for (const char* const option : {"--lr", "--steps", "--top-k", "--run", "--chunk-size"}) {
    EXPECT_PRED2(mentions, refusal(kEval, option), "strata eval does not have this option");
  }
  for (const char* const option : {"--lr", "--data", "--pass", "--run", "--eval-batches"}) {
    EXPECT_PRED2(mentions, refusal(kGenerate, option), "strata generate does not have this option");
  }
}

}  // namespace
}  // namespace strata::engine
