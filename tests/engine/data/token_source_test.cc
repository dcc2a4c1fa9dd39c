#include "engine/data/token_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;

using test::bytes_of;
using test::error_text;
using test::llmc_header;
using test::mentions;
using test::open_tokens;
using test::read_all;
using Ids = std::vector<std::int32_t>;

TEST(TokenSource, TextIsBytes) {
  const test::DataFolder folder;
  const auto source = open_tokens(folder.write("a.txt", std::string("Az\0\xff\n", 5)), 256);
  EXPECT_EQ(read_all(*source), (Ids{65, 122, 0, 255, 10}));
  EXPECT_EQ(source->description(), "5 bytes of text");
}

TEST(TokenSource, TextNeedsAByteLevelModel) {
  const test::DataFolder folder;
  const std::string path = folder.write("a.txt", "text");
  const auto message = error_text<ConfigError>([&] { (void)open_tokens(path, kGpt2Vocabulary); });
  EXPECT_TRUE(mentions(message, "needs a byte-level model (vocabulary 256), this model has 50257"))
      << message;
}

TEST(TokenSource, LlmcAndNanoGpt) {
  const test::DataFolder folder;
  const std::vector<std::uint16_t> tokens = {5, 0, 50256, 77};
  const auto llmc = open_tokens(
      folder.write("a.bin", llmc_header(20240520, 1, 4) + bytes_of(tokens)), kGpt2Vocabulary);
  const auto nano = open_tokens(folder.write("b.bin", bytes_of(tokens)), kGpt2Vocabulary);
  for (const auto* source : {llmc.get(), nano.get()}) {
    EXPECT_EQ(read_all(*source), (Ids{5, 0, 50256, 77}));
  }
  EXPECT_EQ(llmc->description(), "4 llm.c tokens");
  EXPECT_EQ(nano->description(), "4 nanoGPT tokens");
  // llm.c is known by its content, whatever the name.
  EXPECT_EQ(open_tokens(folder.write("c", llmc_header(20240520, 1, 4) + bytes_of(tokens)), 50257)
                ->tokens(),
            4);
}

TEST(TokenSource, LlmcForLlama3HasWideIds) {
  const test::DataFolder folder;
  const std::vector<std::uint32_t> tokens = {128'000, 0, 70'000, 128'255};
  const std::string path = folder.write("a.bin", llmc_header(20240801, 7, 4) + bytes_of(tokens));
  const auto source = open_tokens(path, 128'256);
  EXPECT_EQ(read_all(*source), (Ids{128'000, 0, 70'000, 128'255}));
  EXPECT_EQ(source->description(), "4 llm.c uint32 tokens");
  const std::string huge = folder.write(
      "b.bin", llmc_header(20240801, 7, 2) + bytes_of(std::vector<std::uint32_t>{1, 1u << 31}));
  const auto message = error_text<FormatError>([&] { read_all(*open_tokens(huge, 128'256)); });
  EXPECT_TRUE(mentions(message, "id 2147483648 at position 1")) << message;
}

TEST(TokenSource, WindowsAnywhereInALongFile) {
  const test::DataFolder folder;
  std::vector<std::uint16_t> tokens(20'000);  // several reads of one window
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i * 7);
  const auto source = open_tokens(folder.write("a.bin", bytes_of(tokens)), 65536);
  EXPECT_EQ(source->description(), "20,000 nanoGPT tokens");
  for (const std::size_t first : {0u, 1u, 4095u, 12'345u, 19'999u, 20'000u}) {
    for (const std::size_t wanted : {0u, 1u, 4096u, 4097u, 10'000u}) {
      Ids ids(std::min(wanted, tokens.size() - first));
      source->read(static_cast<std::int64_t>(first), ids);
      for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], tokens[first + i]);
    }
  }
}

TEST(TokenSource, ThreadsReadAtOnce) {
  const test::DataFolder folder;
  std::vector<std::uint16_t> tokens(30'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i);
  const auto source = open_tokens(folder.write("a.bin", bytes_of(tokens)), 65536);
  std::vector<std::vector<std::int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = read_all(*source); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_EQ(results[0][29'999], 29'999);
}

TEST(TokenSource, AnIdOutsideTheVocabularyIsNamedWithItsPosition) {
  const test::DataFolder folder;
  std::vector<std::uint16_t> tokens(6000, 1);
  tokens[5000] = 512;
  const auto source = open_tokens(folder.write("a.bin", bytes_of(tokens)), 512);
  Ids ids(5000);
  source->read(0, ids);
  ids.resize(5500);
  const auto message = error_text<FormatError>([&] { source->read(100, ids); });
  EXPECT_TRUE(mentions(message, "a.bin': id 512 at position 5000 ")) << message;
}

TEST(TokenSource, DamagedFilesAreRefused) {
  const test::DataFolder folder;
  const std::string body = bytes_of(std::vector<std::uint16_t>{1, 2, 3});
  const auto refused = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    return error_text<FormatError>([&] { (void)open_tokens(path, kGpt2Vocabulary); });
  };
  EXPECT_TRUE(mentions(refused("long", llmc_header(20240520, 1, 2) + body),
                       "promises 2 tokens, 1028 bytes"));
  EXPECT_TRUE(mentions(refused("short", llmc_header(20240520, 1, 4) + body), "it has 1030 bytes"));
  EXPECT_TRUE(mentions(refused("negative", llmc_header(20240520, 1, -3) + body), "promises -3"));
  EXPECT_TRUE(mentions(refused("cut", llmc_header(20240520, 1, 0).substr(0, 100)), "damaged"));
  EXPECT_TRUE(mentions(refused("next", llmc_header(20240520, 2, 3) + body), "version 2;"));
  EXPECT_TRUE(mentions(refused("llama3", llmc_header(20240801, 1, 3) + body + body),
                       "version 1; Strata reads version 7"));
  EXPECT_TRUE(mentions(refused("halves", llmc_header(20240801, 7, 3) + body), "1036 bytes in all"));
  EXPECT_TRUE(mentions(refused("odd.bin", "abc"), "odd number of bytes (3)"));
}

TEST(TokenSource, WhatIsNoFileOfTokensIsRefused) {
  const test::DataFolder folder;
  const auto refused = [](const std::string& path) {
    return error_text<ConfigError>([&] { (void)open_tokens(path, 256); });
  };
  EXPECT_TRUE(mentions(refused(folder.path("absent")), "No such file"));
  EXPECT_TRUE(mentions(refused(folder.path()), "is a directory"));
  EXPECT_TRUE(mentions(refused(folder.write("empty.txt", "")), "holds no tokens"));
  EXPECT_TRUE(mentions(refused(folder.write("empty.bin", "")), "holds no tokens"));
  EXPECT_TRUE(
      mentions(refused(folder.write("header", llmc_header(20240520, 1, 0))), "holds no tokens"));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(mentions(refused(folder.path("pipe")), "is not a file"));
}

TEST(TokenSource, AFileThatShrinksIsAnError) {
  const test::DataFolder folder;
  const std::string path = folder.write("a.txt", std::string(100, 'x'));
  const auto source = open_tokens(path, 256);
  std::filesystem::resize_file(path, 60);
  Ids ids(50);
  source->read(0, ids);
  const auto message = error_text<IoError>([&] { source->read(50, ids); });
  EXPECT_TRUE(mentions(message, "read 40 bytes at 60 of")) << message;
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
      // The documents, of which the index has 1,000, are of a vocabulary of 5,000.
      {"megatron/meg-gpt2-openwebtext_text_document", 5000, "1,361,845 Megatron uint16 tokens", {}},
      {"text/tinyshakespeare.txt", 256, "1,115,394 bytes of text", {'F', 'i', 'r', 's', 't'}},
  };
  for (const auto& file : kFiles) {
    const auto source = open_tokens(data + "/" + file.path, file.vocabulary);
    EXPECT_EQ(source->description(), file.description);
    const Ids ids = read_all(*source);  // every id is inside the vocabulary
    for (std::size_t i = 0; i < file.first.size(); ++i)
      EXPECT_EQ(ids[i], file.first[i]) << file.path;
  }
  // GPT-2's tokens are no ids of a 512-word model.
  const auto wrong = open_tokens(data + "/bins/nanogpt_shakespeare_gpt2_val.bin", 512);
  EXPECT_THROW((void)read_all(*wrong), FormatError);
}

}  // namespace
}  // namespace strata::engine
