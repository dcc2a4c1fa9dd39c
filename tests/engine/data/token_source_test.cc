#include "engine/data/token_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return bytes_of(header);
}

std::vector<std::int32_t> read_all(const TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.tokens()));
  source.read(0, ids);
  return ids;
}

template <typename E, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no such exception";
  return {};
}

class TokenSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "strata_tokens.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string directory_;
};

TEST_F(TokenSourceTest, TextIsBytes) {
  const auto source = open_tokens(write("a.txt", std::string("Az\0\xff\n", 5)), 256);
  EXPECT_EQ(read_all(*source), (std::vector<std::int32_t>{65, 122, 0, 255, 10}));
  EXPECT_EQ(source->description(), "5 bytes of text");
}

TEST_F(TokenSourceTest, TextNeedsAByteLevelModel) {
  const std::string path = write("a.txt", "text");
  const auto message = message_of<ConfigError>([&] { (void)open_tokens(path, kGpt2Vocabulary); });
  EXPECT_NE(message.find("needs a byte-level model (vocabulary 256), this model has 50257"),
            std::string::npos)
      << message;
}

TEST_F(TokenSourceTest, LlmcAndNanoGpt) {
  const std::vector<std::uint16_t> tokens = {5, 0, 50256, 77};
  const auto llmc =
      open_tokens(write("a.bin", llmc_header(20240520, 1, 4) + bytes_of(tokens)), kGpt2Vocabulary);
  const auto nano = open_tokens(write("b.bin", bytes_of(tokens)), kGpt2Vocabulary);
  for (const auto* source : {llmc.get(), nano.get()}) {
    EXPECT_EQ(read_all(*source), (std::vector<std::int32_t>{5, 0, 50256, 77}));
  }
  EXPECT_EQ(llmc->description(), "4 llm.c tokens");
  EXPECT_EQ(nano->description(), "4 nanoGPT tokens");
  // llm.c is known by its content, whatever the name.
  EXPECT_EQ(
      open_tokens(write("c", llmc_header(20240520, 1, 4) + bytes_of(tokens)), 50257)->tokens(), 4);
}

TEST_F(TokenSourceTest, WindowsAnywhereInALongFile) {
  std::vector<std::uint16_t> tokens(20'000);  // several reads of one window
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i * 7);
  const auto source = open_tokens(write("a.bin", bytes_of(tokens)), 65536);
  EXPECT_EQ(source->description(), "20,000 nanoGPT tokens");
  for (const std::size_t first : {0u, 1u, 4095u, 12'345u, 19'999u, 20'000u}) {
    for (const std::size_t wanted : {0u, 1u, 4096u, 4097u, 10'000u}) {
      std::vector<std::int32_t> ids(std::min(wanted, tokens.size() - first));
      source->read(static_cast<std::int64_t>(first), ids);
      for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], tokens[first + i]);
    }
  }
}

TEST_F(TokenSourceTest, ThreadsReadAtOnce) {
  std::vector<std::uint16_t> tokens(30'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i);
  const auto source = open_tokens(write("a.bin", bytes_of(tokens)), 65536);
  std::vector<std::vector<std::int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = read_all(*source); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_EQ(results[0][29'999], 29'999);
}

TEST_F(TokenSourceTest, AnIdOutsideTheVocabularyIsNamedWithItsPosition) {
  std::vector<std::uint16_t> tokens(6000, 1);
  tokens[5000] = 512;
  const auto source = open_tokens(write("a.bin", bytes_of(tokens)), 512);
  std::vector<std::int32_t> ids(5000);
  source->read(0, ids);
  ids.resize(5500);
  const auto message = message_of<FormatError>([&] { source->read(100, ids); });
  EXPECT_NE(message.find("a.bin': id 512 at position 5000 "), std::string::npos) << message;
}

TEST_F(TokenSourceTest, DamagedFilesAreRefused) {
  const std::string body = bytes_of(std::vector<std::uint16_t>{1, 2, 3});
  const auto refused = [&](const std::string& name, const std::string& content) {
    const std::string path = write(name, content);
    return message_of<FormatError>([&] { (void)open_tokens(path, kGpt2Vocabulary); });
  };
  EXPECT_NE(
      refused("long", llmc_header(20240520, 1, 2) + body).find("promises 2 tokens, 1028 bytes"),
      std::string::npos);
  EXPECT_NE(refused("short", llmc_header(20240520, 1, 4) + body).find("it has 1030 bytes"),
            std::string::npos);
  EXPECT_NE(refused("negative", llmc_header(20240520, 1, -3) + body).find("promises -3"),
            std::string::npos);
  EXPECT_NE(refused("cut", llmc_header(20240520, 1, 0).substr(0, 100)).find("damaged"),
            std::string::npos);
  EXPECT_NE(refused("next", llmc_header(20240520, 2, 3) + body).find("version 2;"),
            std::string::npos);
  EXPECT_NE(refused("llama3", llmc_header(20240801, 7, 3) + body + body)
                .find("magic 20240801 version 7;"),
            std::string::npos);
  EXPECT_NE(refused("odd.bin", "abc").find("odd number of bytes (3)"), std::string::npos);
}

TEST_F(TokenSourceTest, WhatIsNoFileOfTokensIsRefused) {
  const auto refused = [](const std::string& path) {
    return message_of<ConfigError>([&] { (void)open_tokens(path, 256); });
  };
  EXPECT_NE(refused(directory_ + "/absent").find("No such file"), std::string::npos);
  EXPECT_NE(refused(directory_).find("is a directory"), std::string::npos);
  EXPECT_NE(refused(write("empty.txt", "")).find("holds no tokens"), std::string::npos);
  EXPECT_NE(refused(write("empty.bin", "")).find("holds no tokens"), std::string::npos);
  EXPECT_NE(refused(write("header", llmc_header(20240520, 1, 0))).find("holds no tokens"),
            std::string::npos);
  ASSERT_EQ(::mkfifo((directory_ + "/pipe").c_str(), 0600), 0);
  EXPECT_NE(refused(directory_ + "/pipe").find("is not a file"), std::string::npos);
}

TEST_F(TokenSourceTest, AFileThatShrinksIsAnError) {
  const std::string path = write("a.txt", std::string(100, 'x'));
  const auto source = open_tokens(path, 256);
  std::filesystem::resize_file(path, 60);
  std::vector<std::int32_t> ids(50);
  source->read(0, ids);
  const auto message = message_of<IoError>([&] { source->read(50, ids); });
  EXPECT_NE(message.find("read 40 bytes at 60 of"), std::string::npos) << message;
}

TEST_F(TokenSourceTest, SlicesShiftPositions) {
  const auto whole = open_tokens(write("a.txt", "abcdefgh"), 256);
  const auto slice = slice_tokens(*whole, 3, 4);
  EXPECT_EQ(read_all(*slice), (std::vector<std::int32_t>{'d', 'e', 'f', 'g'}));
  EXPECT_EQ(read_all(*slice_tokens(*slice, 1, 2)), (std::vector<std::int32_t>{'e', 'f'}));
  EXPECT_EQ(slice->description(), "4 from 3 on of 8 bytes of text");
  std::vector<std::int32_t> ids(4);
  EXPECT_DEATH(slice->read(1, ids), "check failed");  // inside the whole, outside the slice
  EXPECT_DEATH((void)slice_tokens(*whole, 5, 4), "check failed");
}

// Files that others made (see the data's README); the numbers are those of the files' publisher.
TEST(SharedData, IsReadAsDocumented) {
  const std::string data = STRATA_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no shared test data at " << data;
  const struct {
    const char* path;
    std::int64_t vocabulary;
    const char* description;
    std::vector<std::int32_t> first;
  } kFiles[] = {
      {"bins/llmc_tiny_shakespeare_train.bin", kGpt2Vocabulary, "305,260 llm.c tokens", {}},
      {"bins/llmc_tiny_shakespeare_val.bin",
       kGpt2Vocabulary,
       "32,768 llm.c tokens",
       {50256, 5962, 22307}},  // <|endoftext|>First Citizen
      {"bins/llmc_tinystories_tok512.bin", 512, "100,509 llm.c tokens", {1, 385}},
      {"bins/nanogpt_shakespeare_gpt2_val.bin", kGpt2Vocabulary, "36,059 nanoGPT tokens", {30}},
      {"text/tinyshakespeare.txt", 256, "1,115,394 bytes of text", {'F', 'i', 'r', 's', 't'}},
  };
  for (const auto& file : kFiles) {
    const auto source = open_tokens(data + "/" + file.path, file.vocabulary);
    EXPECT_EQ(source->description(), file.description);
    const std::vector<std::int32_t> ids = read_all(*source);  // every id is inside the vocabulary
    for (std::size_t i = 0; i < file.first.size(); ++i)
      EXPECT_EQ(ids[i], file.first[i]) << file.path;
  }
  // GPT-2's tokens are no ids of a 512-word model.
  const auto wrong = open_tokens(data + "/bins/nanogpt_shakespeare_gpt2_val.bin", 512);
  EXPECT_THROW((void)read_all(*wrong), FormatError);
}

}  // namespace
}  // namespace strata::engine
