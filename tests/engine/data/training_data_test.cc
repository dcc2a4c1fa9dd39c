// What is trained on and what is validated on, from the options that name it.
#include "engine/data/training_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/base/error.h"
#include "tests/engine/data/sample_test.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::Document;
using test::error_text;
using test::mentions;
using test::sample_text;
using test::write_documents;

constexpr std::int64_t kSeqLen = 3;

std::string refusal(const Options& options, std::int64_t seq_len = kSeqLen) {
  return error_text<ConfigError>([&] { (void)open_training_data(options, 256, seq_len); });
}

TEST(TrainingData, TheLastTokensOfAllFilesAreHeldOut) {
  const test::DataFolder folder;
  folder.write("1.txt", "abcdefg");
  folder.write("2.txt", "hij");
  Options options;
  options.data = folder.path("?.txt");
  options.val_fraction = 0.4;
  const TrainingData data = open_training_data(options, 256, kSeqLen);
  EXPECT_EQ(data.train->count(), 1);  // of abcdef; a second one takes tokens 3 to 6
  EXPECT_EQ(sample_text(*data.train, 0, kSeqLen), "abc>bcd");
  EXPECT_EQ(data.validation->count(), 1);  // of ghij
  EXPECT_EQ(sample_text(*data.validation, 0, kSeqLen), "ghi>hij");
}

TEST(TrainingData, OfDocumentsTheLastAreHeldOut) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"abc"}, {"de"}, {"fgh"}, {"ij"}, {"kl"}});
  options.val_fraction = 0.4;
  const TrainingData data = open_training_data(options, 256, kSeqLen);
  EXPECT_EQ(data.train->count(), 3);
  EXPECT_EQ(sample_text(*data.train, 2, kSeqLen), "fg_>gh_");
  EXPECT_EQ(data.validation->count(), 2);
  EXPECT_EQ(sample_text(*data.validation, 1, kSeqLen), "k__>l__");
  EXPECT_TRUE(
      mentions(data.description(),
               "12 llm.c tokens; to train on: 3 sequences of 3 documents, 5 tokens in all, 2 "
               "in the longest, about 44.4% padding; for validation: 2 sequences of 2 "
               "documents, 2 tokens in all, 1 in the longest, about 66.7% padding"))
      << data.description();
}

TEST(TrainingData, ErrorsNameTheOption) {
  const test::DataFolder folder;
  Options options;
  options.data = folder.write("a.txt", "abcdefg");
  options.val_data = folder.write("b.jsonl", "{}");
  EXPECT_TRUE(mentions(refusal(options), "--val-data: '" + options.val_data + "' has no tokens"));
  options.val_data = folder.write("b.txt", "abc");
  EXPECT_TRUE(
      mentions(refusal(options), "the validation data has 3 tokens, but one sequence takes 4"));
  options.data = folder.path("*.bin");
  EXPECT_TRUE(mentions(refusal(options), "--data: no file matches '"));
}

// Of records and, where the model is not byte-level, of text.
TEST(TrainingData, WhatHasNoTokensIsRefusedWithTheCommandThatMakesThem) {
  const test::DataFolder folder;
  Options options;
  for (const char* const name : {"few.jsonl", "few.txt"}) {
    options.data = folder.write(name, "{}");
    const auto refused_for = [&](const char* model) {
      options.model = model;
      return error_text<ConfigError>([&] { (void)open_training_data(options, 512, kSeqLen); });
    };
    const std::string command =
        "make a token file of it first, with scripts/tokenize.py " + options.data;
    EXPECT_PRED2(mentions, refused_for("some/folder"),
                 command + " --tokenizer some/folder --out tokens/few (docs/data.md)");
    EXPECT_PRED2(mentions, refused_for("gpt2-124m"), command + " --tokenizer FOLDER --out");
  }
}

// Before training, also in a file that is not the first.
TEST(TrainingData, AnIdOutsideTheVocabularyIsFoundAtTheStart) {
  const test::DataFolder folder;
  folder.write("a.bin", test::bytes_of(std::vector<std::uint16_t>(100, 1)));
  folder.write("b.bin", test::bytes_of(std::vector<std::uint16_t>{1, 1, 1, 512}));
  Options options;
  options.data = folder.path("*.bin");
  const auto message = error_text<FormatError>([&] { (void)open_training_data(options, 512, 3); });
  EXPECT_TRUE(mentions(message, "--data: '" + folder.path("b.bin") + "': id 512 at position 3"))
      << message;
}

TEST(TrainingData, OptionsOfDocumentsNeedDocuments) {
  const test::DataFolder folder;
  Options packed;
  packed.data = folder.write("a.txt", "abcdefg");
  packed.pack = true;
  EXPECT_TRUE(mentions(refusal(packed), "--pack needs to know where documents begin"));
  EXPECT_TRUE(mentions(refusal(packed), "NAME.docs"));
  Options dropped;
  dropped.data = packed.data;
  dropped.overlong = "drop";
  EXPECT_TRUE(mentions(refusal(dropped), "--overlong drop is for documents"));
}

// The options are of --data; --val-data may be one text.
TEST(TrainingData, ValidationDataWithoutDocumentsAreOneStream) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"abc"}, {"de"}});
  options.val_data =
      folder.write("v.bin", test::llmc_header(20240520, 1, 4) +
                                test::bytes_of(std::vector<std::uint16_t>{1, 2, 3, 4}));
  options.pack = true;
  options.overlong = "truncate";
  const TrainingData data = open_training_data(options, 256, kSeqLen);
  EXPECT_EQ(data.train->layout(), SampleLayout::packed);
  EXPECT_EQ(data.validation->layout(), SampleLayout::full);
}

TEST(TrainingData, NothingHeldOutIsRefused) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"abc"}, {"de"}, {"fgh"}});
  options.val_fraction = 0.3;
  EXPECT_PRED2(mentions, refusal(options), "--val-fraction 0.3 of the 3 in --data leaves none");
}

TEST(TrainingData, AMaskWithoutATrainedTokenIsRefused) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"ABC"}, {"DE"}}, test::WithMask::yes);
  EXPECT_PRED2(mentions, refusal(options), "--data: none of 5 tokens is trained");
}

TEST(TrainingData, AMaskOfOtherNumbersThanItsMetadataIsRefused) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"AbC"}, {"De"}}, test::WithMask::yes);
  folder.write("d.json", R"({"format": "strata tokens", "version": 1, "tokens": 5, "documents": 2,)"
                         R"( "trained_tokens": 3})");
  EXPECT_PRED2(mentions,
               error_text<FormatError>([&] { (void)open_training_data(options, 256, kSeqLen); }),
               "is of 3 trained ones, but the .mask has 2");
}

// With micro-batches of 2 of a document of 32 rows and one of 64, of which 1 in 4 is short.
TEST(TrainingData, ThePaddingOfMicroBatchesIsToldBefore) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{std::string(33, 'a')}, {std::string(65, 'b')}});
  options.micro_batch = 2;
  const TrainingData data = open_training_data(options, 256, 100);
  // 48 rows of the mean document, in 32 / 4 + 64 · 3 / 4 = 56.
  EXPECT_PRED2(mentions, data.description(), "96 tokens in all, 64 in the longest, about 14.3%");
}

TEST(TrainingData, OverlongDocumentsAreAnErrorDroppedOrTruncated) {
  const test::DataFolder folder;
  Options options;
  options.data = write_documents(folder, "d", {{"ab"}, {"cdefgh"}, {"ijkl"}, {"mnopq"}});
  const std::string message = refusal(options);
  EXPECT_TRUE(mentions(message, "2 of 4 documents have more than the 4 tokens")) << message;
  EXPECT_TRUE(mentions(message, "document 1 with 6")) << message;
  EXPECT_TRUE(mentions(message, "--overlong")) << message;

  options.overlong = "drop";
  const TrainingData dropped = open_training_data(options, 256, kSeqLen);
  EXPECT_EQ(dropped.train->count(), 2);
  EXPECT_EQ(sample_text(*dropped.train, 1, kSeqLen), "ijk>jkl");
  EXPECT_TRUE(mentions(dropped.description(), "2 too long and dropped")) << dropped.description();

  Options all = options;
  all.data = write_documents(folder, "long", {{"abcde"}, {"fghij"}});
  EXPECT_PRED2(mentions, refusal(all), "2 documents leave no token to predict: 2 with more than");

  options.overlong = "truncate";
  const TrainingData truncated = open_training_data(options, 256, kSeqLen);
  EXPECT_EQ(truncated.train->count(), 4);
  EXPECT_EQ(sample_text(*truncated.train, 1, kSeqLen), "cde>def");
  EXPECT_TRUE(mentions(truncated.description(), "2 too long and truncated"));
}

// Megatron's files all have a document index: it does nothing without --pack.
TEST(TrainingData, MegatronDocumentsAreForPacking) {
  const test::DataFolder folder;
  test::MegatronIndex index({3, 2, 4, 2}, 8, 2);
  index.documents = {0, 1, 3, 3, 4};  // of 1, 2, 0 and 1 sequences
  folder.write("m.idx", index.bytes());
  folder.write("m.bin", test::bytes_of(std::vector<std::uint16_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g',
                                                                  'h', 'i', 'j', 'k'}));
  Options options;
  options.data = folder.path("m");
  const TrainingData stream = open_training_data(options, 256, 5);
  EXPECT_EQ(sample_text(*stream.train, 0, 5), "abcde>bcdef");
  options.pack = true;
  const TrainingData packed = open_training_data(options, 256, 6);
  ASSERT_EQ(packed.train->count(), 2);
  EXPECT_EQ(sample_text(*packed.train, 0, 6), "ab____>bc____");
  EXPECT_EQ(sample_text(*packed.train, 1, 6), "defghj>efghik");
  EXPECT_TRUE(mentions(packed.train->description(), "1 without a token to predict"));
}

// A file that others made (see the data's README): 1,361,845 tokens in 1,000 documents, of which
// each leaves one token without a row, and the long ones more.
TEST(SharedData, MegatronIsPacked) {
  Options options;
  options.data = STRATA_SOURCE_DIR "/../shared/data/megatron/meg-gpt2-openwebtext_text_document";
  if (!std::filesystem::exists(options.data + ".idx")) GTEST_SKIP() << "no " << options.data;
  options.pack = true;
  options.overlong = "truncate";
  const auto packed = [&](std::int64_t seq_len) {
    return open_training_data(options, 5000, seq_len);
  };
  EXPECT_EQ(packed(1 << 20).train->tokens(), 1'361'845 - 1000);
  const TrainingData data = packed(1024);
  const Samples& samples = *data.train;
  EXPECT_LT(samples.tokens(), 1'361'845 - 1000);
  EXPECT_GT(samples.tokens(), samples.count() * 512);  // two neighbours are more than a sequence
  const test::ReadSample last(samples, samples.count() - 1, 1024);
  EXPECT_GE(last.targets.front(), 0);
}

}  // namespace
}  // namespace strata::engine
