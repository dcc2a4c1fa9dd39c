// Documents of letters as token files with their companions, and samples as text.
#pragma once

#include <string>
#include <vector>

#include "engine/data/samples.h"
#include "kernels/ops/cross_entropy.h"
#include "tests/engine/data/token_test_files.h"

namespace strata::test {

// A letter is a token; capital ones are not trained.
struct Document {
  std::string letters;
};

inline std::string docs_bytes(const std::vector<std::uint64_t>& starts) {
  return "STRATADC" + bytes_of(std::vector<std::uint64_t>{starts.size()}) + bytes_of(starts);
}

enum class WithMask { no, yes };

// NAME.bin (llm.c) and NAME.docs; returns the path of the first.
inline std::string write_documents(const DataFolder& folder, const std::string& name,
                                   const std::vector<Document>& documents,
                                   WithMask with_mask = WithMask::no) {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint64_t> starts;
  std::string mask;
  for (const Document& document : documents) {
    starts.push_back(tokens.size());
    for (const char letter : document.letters) {
      tokens.push_back(static_cast<std::uint8_t>(letter));
      mask += letter >= 'A' && letter <= 'Z' ? '\0' : '\1';
    }
  }
  folder.write(name + ".docs", docs_bytes(starts));
  if (with_mask == WithMask::yes) folder.write(name + ".mask", mask);
  return folder.write(
      name + ".bin",
      llmc_header(20240520, 1, static_cast<std::int32_t>(tokens.size())) + bytes_of(tokens));
}

// The rows of a sample in a sequence of so many.
struct ReadSample {
  std::vector<std::int32_t> tokens, targets, positions, document_starts;

  ReadSample(const engine::Samples& samples, std::int64_t sample, std::int64_t rows)
      : tokens(static_cast<std::size_t>(rows)),
        targets(tokens),
        positions(tokens),
        document_starts(tokens) {
    samples.read(sample, {tokens, targets, positions, document_starts});
  }
};

// "abc>bcd": inputs and targets; _ for padding and ignored targets.
inline std::string sample_text(const engine::Samples& samples, std::int64_t sample,
                               std::int64_t rows) {
  const ReadSample read(samples, sample, rows);
  std::string text;
  for (const std::int32_t token : read.tokens) text += token == 0 ? '_' : static_cast<char>(token);
  text += '>';
  for (const std::int32_t target : read.targets) {
    text += target == ops::kIgnoredTarget ? '_' : static_cast<char>(target);
  }
  return text;
}

}  // namespace strata::test
