// What a wrong file, folder, model or budget does to `strata train`: one clear line on standard
// error, an exit code that is not zero, nothing left behind, no time lost. (cli_test.cc: wrong
// options. ranks_test.cc: the same on several ranks.)
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/io/loop_mount.h"
#include "tests/support/error_text.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using test::mentions;
using test::ProcessResult;
using test::TemporaryFolder;

std::set<std::string> paths_under(const std::string& folder) {
  std::set<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) paths.insert(entry.path());
  return paths;
}

class BadInput : public ::testing::Test {
 protected:
  BadInput() {
    write("text.txt", std::string(10'000, 'a'));
    fs::create_directory(folder_.path("nvme"));
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(path(name), std::ios::binary) << contents;
  }

  // Trains a tiny model on text.txt for two steps but for what `options` say (the last one wins).
  ProcessResult train(const std::vector<std::string>& options) const {
    return run("train", options);
  }
  ProcessResult run(const std::string& command, const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {
        STRATA_BINARY,     command,
        "--model",         "gpt2:layers=1,hidden=32,heads=2,context=32",
        "--data",          "text.txt",
        "--nvme",          "nvme",
        "--steps",         "2",
        "--host-memory",   "64MiB",
        "--device-memory", "64MiB",
        "--threads",       "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return test::run_process(arguments, folder_.path());
  }

  // Checks that training fails, naming each of `parts`.
  void expect_error(const std::vector<std::string>& options,
                    const std::vector<std::string>& parts) const {
    const std::set<std::string> before = paths_under(folder_.path());
    const ProcessResult result = train(options);
    EXPECT_GT(result.exit_code, 0) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_PRED2(mentions, result.err, part);
    EXPECT_EQ(paths_under(folder_.path()), before) << "something was left behind or removed";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(BadInput, GoodInputTrains) {
  const ProcessResult result = train({"--run", "run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(fs::exists(path("run/options.json")));
  EXPECT_TRUE(fs::exists(path("run/plan.json")));
  EXPECT_TRUE(fs::exists(path("run/log.jsonl")));
}

TEST_F(BadInput, Data) {
  expect_error({"--data", "none.txt"}, {"--data: ", "none.txt", "No such file"});
  expect_error({"--data", "nvme"}, {"nvme", "directory"});
  write("short.txt", std::string(32, 'a'));  // one token less than a sequence and its last target
  expect_error({"--data", "short.txt"}, {"32 tokens", "--seq-len 32"});
  write("empty.txt", "");
  expect_error({"--data", "empty.txt"}, {"empty.txt"});
  expect_error({"--val-data", "none.txt"}, {"--val-data: ", "none.txt", "No such file"});
  // Bytes are tokens of byte-level models only.
  expect_error({"--model", "gpt2:layers=1,hidden=32,heads=2,context=32,vocab=300"}, {"text.txt"});
}

TEST_F(BadInput, UnreadableData) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  fs::permissions(path("text.txt"), fs::perms::none);
  expect_error({}, {"text.txt", "Permission denied"});
}

// 1000 tokens of which the last but one is outside: found before the first step, not at a later
// one.
TEST_F(BadInput, TokenOutsideTheVocabulary) {
  std::vector<std::uint16_t> tokens(1000, 1);
  tokens[998] = 256;
  const std::string bytes(reinterpret_cast<const char*>(tokens.data()), 2000);
  write("nanogpt.bin", bytes);
  expect_error({"--data", "nanogpt.bin"},
               {"nanogpt.bin", "id 256 at position 998", "vocabulary of 256"});
  expect_error({"--val-data", "nanogpt.bin"}, {"nanogpt.bin", "id 256 at position 998"});

  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 1000;
  write("llmc.bin", std::string(reinterpret_cast<const char*>(header.data()), 1024) + bytes);
  expect_error({"--data", "llmc.bin"}, {"llmc.bin", "id 256 at position 998"});
  const std::string model = "gpt2:layers=1,hidden=32,heads=2,context=32,vocab=257";
  EXPECT_EQ(train({"--data", "llmc.bin", "--model", model}).exit_code, 0);
}

TEST_F(BadInput, DamagedTokenFile) {
  write("odd.bin", std::string(1001, '\0'));
  expect_error({"--data", "odd.bin"}, {"odd.bin", "odd number of bytes"});
}

TEST_F(BadInput, Model) {
  expect_error({"--model", "gpt2-124"}, {"gpt2-124", "gpt2-124m"});
  expect_error({"--model", "gpt2:layers=1,hidden=32,heads=3,context=32"}, {"hidden", "heads"});
  expect_error({"--seq-len", "33"}, {"--seq-len", "32"});
  expect_error({"--no-decay", "ln_*,nothing*"}, {"--no-decay 'nothing*'"});
  expect_error({"--device", "cuda"}, {"--device cuda", "no CUDA device", "--device cpu"});
  expect_error({"--warmup", "3"}, {"--warmup of 3 steps is longer than the run of 2 steps"});
  expect_error({"--place", "weights=disk"}, {"--place: 'disk'"});
}

// The options in "…; --host-memory 52MiB would fit, and so would --pass 3", one set per
// alternative.
std::vector<std::vector<std::string>> alternatives_in(const std::string& message) {
  std::string advice = message.substr(message.rfind("; ") + 2);
  std::vector<std::vector<std::string>> alternatives(1);
  std::istringstream words(advice);
  for (std::string word; words >> word;) {
    if (word == "would") {
      alternatives.emplace_back();
      continue;
    }
    const bool is_value = !alternatives.back().empty() && alternatives.back().back()[0] == '-';
    if (word.starts_with("--") || is_value) alternatives.back().push_back(word);
  }
  std::erase_if(alternatives, [](const auto& options) { return options.empty(); });
  return alternatives;
}

struct TightBudget {
  std::vector<std::string> options;
  std::string what_is_short;
  std::string other_change;  // that fits too, besides larger budgets
};

TEST_F(BadInput, BudgetsTooSmallNameChangesThatFit) {
  const std::string model = "gpt2:layers=4,hidden=256,heads=4,context=128";
  const TightBudget cases[] = {
      {{"--device-memory", "1MiB"}, "device memory", ""},
      {{"--host-memory", "4KiB"}, "host memory", ""},
      {{"--device-memory", "1MiB", "--host-memory", "1MiB"}, "device memory", ""},
      {{"--device-memory", "16MiB", "--prefetch", "4"}, "device memory", "--prefetch"},
      {{"--device-memory", "22MiB", "--micro-batch", "8"}, "device memory", "--micro-batch"},
      {{"--host-memory", "60MiB", "--activations", "host", "--global-batch", "1000"},
       "host memory",
       "--pass"}};
  for (const TightBudget& tight : cases) {
    std::vector<std::string> options = {"--model",        model, "--seq-len", "128",
                                        "--global-batch", "8"};
    options.insert(options.end(), tight.options.begin(), tight.options.end());
    SCOPED_TRACE(fmt::format("{}", fmt::join(tight.options, " ")));
    expect_error(options, {tight.what_is_short + " is short by", tight.other_change});
    const ProcessResult refused = run("plan", options);
    EXPECT_GT(refused.exit_code, 0);
    const auto alternatives = alternatives_in(refused.err);
    EXPECT_EQ(alternatives.size(), tight.other_change.empty() ? 1 : 2) << refused.err;
    for (const std::vector<std::string>& change : alternatives) {
      std::vector<std::string> changed = options;
      changed.insert(changed.end(), change.begin(), change.end());
      EXPECT_EQ(run("plan", changed).exit_code, 0) << fmt::format("{}", fmt::join(change, " "));
    }
  }
}

// The largest pass that fits, not just one.
TEST_F(BadInput, PassesThatDoNotFitNameTheLargestThatDoes) {
  const std::vector<std::string> options = {"--activations", "host",          "--global-batch",
                                            "16000",         "--host-memory", "12MiB"};
  const ProcessResult refused = run("plan", options);
  const auto alternatives = alternatives_in(refused.err);
  ASSERT_EQ(alternatives.size(), 2) << refused.err;
  const std::vector<std::string> pass = alternatives[1];
  ASSERT_EQ(pass[0], "--pass");
  const auto exit_code = [&](int size) {
    std::vector<std::string> changed = options;
    changed.insert(changed.end(), {"--pass", std::to_string(size)});
    return run("plan", changed).exit_code;
  };
  EXPECT_EQ(exit_code(std::stoi(pass[1])), 0);
  EXPECT_NE(exit_code(std::stoi(pass[1]) + 1), 0);
}

TEST_F(BadInput, MoreMemoryThanTheMachineHas) {
  expect_error({"--device-memory", "1000000GiB"}, {"--device-memory", "is free", "lower"});
}

TEST_F(BadInput, NvmeDirectory) {
  const auto with_nvme = [&](const std::string& folder) {
    return std::vector<std::string>{"--place", "weights=nvme,moments=nvme", "--nvme", folder};
  };
  expect_error(with_nvme("none"), {"--nvme: ", "none", "no such directory"});
  expect_error(with_nvme("text.txt"), {"text.txt", "directory"});
  expect_error({"--place", "all=host", "--nvme", "none"}, {"none", "no such directory"});
}

TEST_F(BadInput, StateForNvmeWithoutADirectory) {
  expect_error({"--place", "all=nvme", "--nvme", ""}, {"--nvme DIR", "--run DIR"});
}

TEST_F(BadInput, NvmeThatIsReadOnlyOrFull) {
  io::LoopMount small(2 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const std::vector<std::string> options = {
      "--model", "gpt2:layers=2,hidden=256,heads=2,context=32",
      "--place", "weights=nvme,moments=nvme",
      "--nvme",  small.directory()};
  expect_error(options, {"--nvme: ", small.directory(), "are free"});
  // A folder that is still to be made is judged by the directory that it will lie in.
  std::vector<std::string> in_run_folder = options;
  in_run_folder.insert(in_run_folder.end(),
                       {"--nvme", "", "--run", small.directory() + "/runs/new"});
  expect_error(in_run_folder, {"--run: ", "are free"});
  ASSERT_TRUE(small.make_read_only());
  expect_error(options, {small.directory(), "read-only"});
}

TEST_F(BadInput, UsedRunFolder) {
  fs::create_directory(path("run"));
  write("run/log.jsonl", "{}\n");
  expect_error({"--run", "run"}, {"--run run", "choose another"});
  expect_error({"--run", "text.txt"}, {"--run text.txt", "choose another"});
}

TEST_F(BadInput, OutputsThatCannotBeWritten) {
  expect_error({"--log", "none/log.jsonl"}, {"none/log.jsonl", "No such file"});
  expect_error({"--trace", "none/trace.json"}, {"none/trace.json", "No such file"});
  expect_error({"--run", "text.txt/run"}, {"text.txt/run", "Not a directory"});
}

TEST_F(BadInput, AFailureAfterTheRunFolderLeavesNoFolder) {
  expect_error({"--run", "run", "--trace", "none/trace.json"}, {"none/trace.json"});
}

}  // namespace
}  // namespace strata::engine
