// What a wrong file, folder, model or budget does to `strata train`: one clear line on standard
// error, an exit code that is not zero, nothing left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
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
    std::vector<std::string> arguments = {
        STRATA_BINARY,     "train",
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
  expect_error({"--data", "none.txt"}, {"none.txt", "No such file"});
  expect_error({"--data", "nvme"}, {"nvme", "directory"});
  write("short.txt", std::string(32, 'a'));  // one token less than a sequence and its last target
  expect_error({"--data", "short.txt"}, {"32 tokens", "--seq-len 32"});
  write("empty.txt", "");
  expect_error({"--data", "empty.txt"}, {"empty.txt"});
  expect_error({"--val-data", "none.txt"}, {"none.txt", "No such file"});
  // Bytes are tokens of byte-level models only.
  expect_error({"--model", "gpt2:layers=1,hidden=32,heads=2,context=32,vocab=300"}, {"text.txt"});
}

TEST_F(BadInput, TokenOutsideTheVocabulary) {
  write("tokens.bin", std::string(2000, '\1'));  // nanoGPT: 16-bit ids, here 257
  expect_error({"--data", "tokens.bin"}, {"tokens.bin", "257"});
}

TEST_F(BadInput, Model) {
  expect_error({"--model", "gpt2-124"}, {"gpt2-124", "gpt2-124m"});
  expect_error({"--model", "gpt2:layers=1,hidden=32,heads=3,context=32"}, {"hidden", "heads"});
  expect_error({"--seq-len", "33"}, {"--seq-len", "32"});
}

TEST_F(BadInput, Budgets) {
  expect_error({"--device-memory", "64KiB"}, {"device memory"});
  expect_error({"--host-memory", "4KiB"}, {"host memory"});
}

TEST_F(BadInput, NvmeDirectory) {
  const auto with_nvme = [&](const std::string& folder) {
    return std::vector<std::string>{"--place", "weights=nvme,moments=nvme", "--nvme", folder};
  };
  expect_error(with_nvme("none"), {"none", "no such directory"});
  expect_error(with_nvme("text.txt"), {"text.txt", "directory"});
}

TEST_F(BadInput, NvmeThatIsReadOnlyOrFull) {
  io::LoopMount small(2 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const std::vector<std::string> options = {
      "--model", "gpt2:layers=2,hidden=256,heads=2,context=32",
      "--place", "weights=nvme,moments=nvme",
      "--nvme",  small.directory()};
  expect_error(options, {small.directory(), "are free"});
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
}

TEST_F(BadInput, AFailureAfterTheRunFolderLeavesNoFolder) {
  expect_error({"--run", "run", "--trace", "none/trace.json"}, {"none/trace.json"});
}

}  // namespace
}  // namespace strata::engine
