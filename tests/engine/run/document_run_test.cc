// Runs on documents, through the command line: what they say of their data, and count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/engine/data/sample_test.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"

namespace strata::test {
namespace {

using nlohmann::json;

// 12 documents of 4 to 15 tokens: 3 + … + 14 = 102 rows in all. The first token is never trained,
// so every row has a target: but those of two documents.
class DocumentRun : public ::testing::Test {
 protected:
  DocumentRun() {
    std::vector<Document> documents;
    for (int d = 0; d < 12; ++d) {
      std::string letters(static_cast<std::size_t>(4 + d), d == 3 || d == 7 ? 'A' : 'a');
      letters.front() = 'Q';
      documents.push_back({letters});
    }
    write_documents(folder_, "d", documents, WithMask::yes);
  }

  ProcessResult run(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        STRATA_BINARY,    command, "--model",         "gpt2:layers=1,hidden=16,heads=2,context=16",
        "--data",         "d.bin", "--device-memory", "48MiB",
        "--host-memory",  "96MiB", "--nvme",          folder_.path(),
        "--global-batch", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_process(arguments, folder_.path());
  }
  std::vector<json> log(const std::string& name) const {
    return json_lines(contents_of(folder_.path(name)));
  }

  DataFolder folder_;
};

constexpr int kRows = 102;
constexpr int kTargets = kRows - 6 - 10;  // without those of documents of 7 and 11 tokens

TEST_F(DocumentRun, EpochsCountTokensAndTargets) {
  const ProcessResult result =
      run("train", {"--epochs", "2", "--micro-batch", "2", "--log", "log.jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(
      mentions, result.out,
      "114 llm.c tokens with a mask; to train on: 12 sequences of 12 documents, 102 tokens in "
      "all, 14 in the longest, about 46.9% padding");
  const std::vector<json> lines = log("log.jsonl");
  ASSERT_EQ(lines.size(), 6u);
  for (const std::size_t epoch : {0, 1}) {
    std::int64_t targets = 0;
    for (std::size_t step = 3 * epoch; step < 3 * epoch + 3; ++step) {
      targets += lines[step]["targets"].get<std::int64_t>();
      // Two micro-batches of two sequences of one length each: 16, which is seq_len.
      const std::int64_t before = step == 0 ? 0 : lines[step - 1]["tokens"].get<std::int64_t>();
      const auto tokens = static_cast<double>(lines[step]["tokens"].get<std::int64_t>() - before);
      EXPECT_DOUBLE_EQ(lines[step]["padding"].get<double>(), 1 - tokens / 64);
    }
    EXPECT_EQ(targets, kTargets);
    EXPECT_EQ(lines[3 * epoch + 2]["tokens"], (epoch + 1) * kRows);
  }
}

// Sequences of 16 rows where there is room for 64: a quarter of the products of a full step, and
// less than that of the attention. The first step has no update in it, and no bound.
TEST_F(DocumentRun, ShortSequencesHaveABoundOfTheirOwn) {
  const ProcessResult result = run_process(
      {STRATA_BINARY, "train", "--model", "gpt2:layers=1,hidden=16,heads=2,context=64", "--data",
       "d.bin", "--steps", "3", "--global-batch", "4", "--place", "all=host", "--json"},
      folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<json> lines = json_lines(result.out);
  const double full_s = lines.back()["bound_s"];
  EXPECT_EQ(full_s, lines.back()["bound"]["seconds"]);
  int bounded = 0;
  for (const json& line : lines) {
    if (!line.contains("step_s")) continue;
    EXPECT_EQ(line["bound_s"].is_null(), line["step"] == 1) << line;
    if (line["bound_s"].is_null()) continue;
    EXPECT_GT(line["bound_s"], 0);
    EXPECT_LT(line["bound_s"], full_s);
    ++bounded;
  }
  EXPECT_EQ(bounded, 2);
}

TEST_F(DocumentRun, AResumedRunCountsOn) {
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--lr-schedule", "constant", "--matmul-dtype", "f32"});
    const ProcessResult result = run("train", more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  };
  train({"--steps", "5", "--run", "a"});
  train({"--steps", "2", "--run", "b"});
  train({"--steps", "5", "--run", "b", "--resume", "--allow-change", "steps"});
  const std::vector<json> straight = log("a/log.jsonl");
  const std::vector<json> resumed = log("b/log.jsonl");
  ASSERT_EQ(resumed.size(), straight.size());
  for (std::size_t i = 0; i < straight.size(); ++i) {
    for (const char* const field : {"step", "tokens", "targets", "loss"}) {
      EXPECT_EQ(resumed[i][field], straight[i][field]) << field << " of line " << i;
    }
  }
}

TEST_F(DocumentRun, PackedAndValidated) {
  const ProcessResult result = run("train", {"--pack", "--val-fraction", "0.25", "--steps", "3",
                                             "--eval-batches", "0", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<json> lines = json_lines(result.out);
  // ln 256 = 5.55 before training, less about 0.3: a letter follows itself, and the head is the
  // embedding. The sum over rows that are a fifth padding would be 4.3.
  const auto before = std::ranges::find_if(
      lines, [](const json& line) { return line.contains("step") && line["step"] == 0; });
  ASSERT_NE(before, lines.end());
  EXPECT_NEAR((*before)["val_loss"], 5.25, 0.4);
  const ProcessResult plan = run("plan", {"--pack", "--steps", "3"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_PRED2(mentions, plan.out, "9 sequences of 12 documents, packed, 29.2% padding");
  EXPECT_PRED2(mentions, plan.out, "tokenizer  the model has no tokenizer.json");
}

// One token of the last document is trained: one of three steps has it.
TEST_F(DocumentRun, AStepWithoutATargetIsToldAndSkipped) {
  folder_.write("d.mask", std::string(113, '\0') + '\1');
  const ProcessResult result = run("train", {"--steps", "3", "--log", "log.jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, "no token is trained");
  EXPECT_PRED2(mentions, result.out, "2 steps without a trained token");
  const std::vector<json> lines = log("log.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  for (const json& line : lines) EXPECT_EQ(line["loss"].is_null(), line["targets"] == 0);
}

TEST_F(DocumentRun, DataWithoutATargetAreRefused) {
  folder_.write("d.mask", std::string(114, '\0'));
  const ProcessResult result = run("train", {"--steps", "2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_PRED2(mentions, result.err, "none of 114 tokens is trained");
}

// Under the same name: every change would be other weights.
TEST_F(DocumentRun, OtherDataAreNoticedAtResume) {
  const auto begun = run("train", {"--steps", "1", "--lr-schedule", "constant", "--run", "r"});
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  const auto go_on = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"--steps", "2", "--lr-schedule", "constant", "--run", "r", "--resume"});
    return run("train", more);
  };
  for (const char* const name : {"d.mask", "d.docs", "d.bin"}) {
    const std::string before = contents_of(folder_.path(name));
    std::string changed = before;
    const std::size_t at = name == std::string("d.docs") ? 24 : before.size() - 2;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    folder_.write(name, changed);
    const ProcessResult refused = go_on({});
    EXPECT_EQ(refused.exit_code, 2) << name;
    EXPECT_PRED2(mentions, refused.err, "r/data.json");
    EXPECT_PRED2(mentions, refused.err, "--allow-change data");
    folder_.write(name, before);
  }
  const std::string mask = contents_of(folder_.path("d.mask"));
  std::filesystem::remove(folder_.path("d.mask"));
  EXPECT_PRED2(mentions, go_on({}).err, ", now none");
  // What is allowed is what the run was begun with from then on.
  const ProcessResult allowed = go_on({"--allow-change", "data"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  folder_.write("d.mask", mask);
  EXPECT_EQ(go_on({}).exit_code, 2);
}

TEST_F(DocumentRun, RefusalsSayWhatToDo) {
  const ProcessResult longer = run("train", {"--steps", "1", "--seq-len", "8"});
  EXPECT_NE(longer.exit_code, 0);
  EXPECT_PRED2(mentions, longer.err, "--overlong truncate or drop");
  const ProcessResult dropped =
      run("train", {"--steps", "1", "--seq-len", "8", "--overlong", "drop"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_PRED2(mentions, dropped.out, "6 too long and dropped");
}

}  // namespace
}  // namespace strata::test
