// Samples of every kind, against the definition computed in memory.
#include "engine/data/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/data/document_samples.h"
#include "engine/data/stream_samples.h"
#include "tests/engine/data/sample_test.h"
#include "tests/support/allocation_count.h"

namespace strata::engine {
namespace {

using test::Document;
using test::ReadSample;
using test::sample_text;
using test::WithMask;
using test::write_documents;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocabulary = 256;

TEST(StreamSamples, MaskedTokensAreNoTargets) {
  const test::DataFolder folder;
  folder.write("a.txt.mask", std::string("\0\1\1\0\0\1\1\1", 8));
  const TokenData data = open_token_data(folder.write("a.txt", "abcdefgh"), kVocabulary);
  const StreamSamples samples(data, 1, 7, 3);
  ASSERT_EQ(samples.count(), 2);
  EXPECT_FALSE(samples.targets_per_sample().has_value());
  EXPECT_EQ(sample_text(samples, 0, 3), "bcd>c__");
  EXPECT_EQ(sample_text(samples, 1, 3), "efg>fgh");
}

TEST(DocumentSamples, OneDocumentASequence) {
  const test::DataFolder folder;
  const TokenData data = open_token_data(
      write_documents(folder, "d", {{"ABc"}, {"x"}, {"Defg"}}, WithMask::yes), kVocabulary);
  const DocumentSamples samples(data, {0, 3}, {.seq_len = 4});
  ASSERT_EQ(samples.count(), 2);  // one letter predicts nothing
  EXPECT_EQ(samples.tokens(), 2 + 3);
  EXPECT_EQ(samples.layout(), SampleLayout::padded);
  EXPECT_EQ(samples.rows(0), 2);
  EXPECT_EQ(sample_text(samples, 0, 4), "AB__>_c__");
  EXPECT_EQ(sample_text(samples, 1, 3), "Def>efg");
  EXPECT_EQ(ReadSample(samples, 1, 3).positions, (Ids{0, 1, 2}));
}

TEST(DocumentSamples, PackedDocumentsHaveTheirOwnPositionsAndStarts) {
  const test::DataFolder folder;
  const TokenData data =
      open_token_data(write_documents(folder, "d", {{"abc"}, {"de"}, {"fghi"}}), kVocabulary);
  const DocumentSamples samples(data, {0, 3}, {.seq_len = 5, .packing = Packing::next_fit});
  ASSERT_EQ(samples.count(), 2);
  EXPECT_EQ(samples.layout(), SampleLayout::packed);
  EXPECT_EQ(sample_text(samples, 0, 5), "abd__>bce__");
  const ReadSample first(samples, 0, 5);
  EXPECT_EQ(first.positions, (Ids{0, 1, 0, 0, 1}));
  EXPECT_EQ(first.document_starts, (Ids{0, 0, 2, 3, 3}));
  EXPECT_EQ(sample_text(samples, 1, 5), "fgh__>ghi__");
}

// Random documents in three files, many entries of the sparse index; the definition in memory.
class ManyDocuments : public ::testing::TestWithParam<Packing> {
 protected:
  static constexpr std::int64_t kSeqLen = 12;
  static constexpr int kDocuments = 3000;

  ManyDocuments() {
    std::mt19937 random(5);
    std::vector<std::vector<Document>> files(3);
    for (int d = 0; d < kDocuments; ++d) {
      std::string letters(1 + random() % 16, ' ');
      for (char& letter : letters)
        letter = static_cast<char>((random() % 2 ? 'a' : 'A') + random() % 26);
      files[static_cast<std::size_t>(d * 3 / kDocuments)].push_back({letters});
      documents_.push_back(letters);
    }
    for (std::size_t f = 0; f < files.size(); ++f) {
      write_documents(folder_, std::to_string(f), files[f], WithMask::yes);
    }
    data_ = open_token_data(folder_.path("*.bin"), kVocabulary);
  }

  // As sample_text().
  std::vector<std::string> expected(DocumentRange range) const {
    std::vector<std::string> inputs, texts;
    std::vector<std::string> targets;
    for (std::int64_t d = range.first; d < range.last; ++d) {
      const std::string& letters = documents_[static_cast<std::size_t>(d)];
      const auto rows = static_cast<std::int64_t>(letters.size()) - 1;
      if (rows < 1 || rows > kSeqLen) continue;
      const bool fits = !inputs.empty() && GetParam() == Packing::next_fit &&
                        std::ssize(inputs.back()) + rows <= kSeqLen;
      if (!fits) {
        inputs.emplace_back();
        targets.emplace_back();
      }
      inputs.back() += letters.substr(0, letters.size() - 1);
      for (const char c : letters.substr(1)) targets.back() += c >= 'A' && c <= 'Z' ? '_' : c;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].resize(kSeqLen, '_');
      targets[i].resize(kSeqLen, '_');
      texts.push_back(inputs[i] + ">" + targets[i]);
    }
    return texts;
  }

  test::DataFolder folder_;
  std::vector<std::string> documents_;
  TokenData data_;
};

TEST_P(ManyDocuments, AreThoseOfTheDefinitionInAnyOrder) {
  for (const DocumentRange range : {DocumentRange{0, kDocuments}, DocumentRange{700, 2300}}) {
    const DocumentSamples samples(data_, range, {kSeqLen, GetParam(), Overlong::drop});
    const std::vector<std::string> texts = expected(range);
    ASSERT_EQ(samples.count(), std::ssize(texts));
    std::int64_t rows = 0;
    for (std::int64_t s = samples.count(); s-- > 0;) {
      ASSERT_EQ(sample_text(samples, s, kSeqLen), texts[static_cast<std::size_t>(s)]) << s;
      rows += samples.rows(s);
    }
    EXPECT_EQ(samples.tokens(), rows);
  }
}

TEST_P(ManyDocuments, ReadingAllocatesNothing) {
  const DocumentSamples samples(data_, {0, kDocuments}, {kSeqLen, GetParam(), Overlong::truncate});
  ReadSample read(samples, 0, kSeqLen);
  for (std::int64_t s = 0; s < 3; ++s) {  // each file is opened at its first use
    samples.read((samples.count() - 1) * s / 2,
                 {read.tokens, read.targets, read.positions, read.document_starts});
  }
  const std::int64_t before = test::allocation_count;
  for (std::int64_t s = 0; s < samples.count(); s += 7) {
    samples.read(s, {read.tokens, read.targets, read.positions, read.document_starts});
  }
  EXPECT_EQ(test::allocation_count, before);
}

INSTANTIATE_TEST_SUITE_P(Packings, ManyDocuments,
                         ::testing::Values(Packing::none, Packing::next_fit), [](const auto& info) {
                           return info.param == Packing::none ? "none" : "next_fit";
                         });

}  // namespace
}  // namespace strata::engine
