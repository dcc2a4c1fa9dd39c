// DocumentSamples: sequences of whole documents, in the order of the files. A document of n tokens
// takes n - 1 rows, one with less than 2 none.
//
//   Packing::none      one document per sequence
//   Packing::next_fit  the next document goes into the same sequence if its rows are left
//
// Which documents a sequence has is found again from a sparse index, of the first document of every
// so many sequences: 8 MiB at most, whatever the number of documents.
#pragma once

#include <vector>

#include "engine/data/samples.h"
#include "engine/data/token_data.h"

namespace strata::engine {

enum class Packing { none, next_fit };
// What is done with a document of more than seq_len + 1 tokens; truncate keeps its beginning.
enum class Overlong { error, drop, truncate };

struct DocumentRules {
  std::int64_t seq_len = 0;
  Packing packing = Packing::none;
  Overlong overlong = Overlong::error;
  std::int64_t micro_batch = 1;  // samples that are padded to one length
};

// Documents [first, last).
struct DocumentRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class DocumentSamples final : public Samples {
 public:
  // Reads the whole index. `data`, which knows its documents, must outlive it. Throws ConfigError
  // for an overlong document that is an error, and where no document has a row.
  DocumentSamples(const TokenData& data, DocumentRange range, const DocumentRules& rules);

  std::int64_t count() const override { return samples_; }
  std::int64_t tokens() const override { return rows_; }
  SampleLayout layout() const override;
  std::optional<std::int64_t> targets_per_sample() const override { return std::nullopt; }
  std::string description() const override;
  std::int64_t rows(std::int64_t sample) const override;
  void read(std::int64_t sample, const SampleRows& rows) const override;

 private:
  // What a document puts into a sequence.
  struct Piece {
    std::int64_t document;
    std::int64_t first_token;
    std::int64_t rows;
  };
  class Pieces;

  bool fits(std::int64_t used_rows, const Piece& piece) const;
  template <typename Visit>
  void visit_pieces(std::int64_t sample, Visit&& visit) const;
  void build_index();
  void refuse_overlong(const Pieces& pieces) const;
  void refuse_nothing() const;
  std::string padding_text() const;

  const TokenSource& tokens_;
  const TokenMask* mask_;
  const DocumentIndex& documents_;
  DocumentRange range_;
  DocumentRules rules_;
  std::int64_t stride_;              // samples per entry of the index
  std::vector<std::int64_t> index_;  // [entry]: first document of sample entry × stride
  std::int64_t samples_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t longest_ = 0;           // rows of a document
  std::vector<std::int64_t> lengths_;  // [rows / kPaddedMultiple, rounded up]: documents
  std::int64_t empty_ = 0;             // documents without a row
  std::int64_t overlong_ = 0;          // documents that were dropped or truncated
};

}  // namespace strata::engine
