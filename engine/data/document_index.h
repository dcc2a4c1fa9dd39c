// DocumentIndex: where the documents of token files begin, read in windows from the files that say
// so: NAME.docs beside a token file, or the index of a Megatron pair. docs/data.md has the formats.
//
// Thread contract: immutable; reads from any thread, at once, allocate nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/input_file.h"

namespace strata::engine {

// The documents of one token file, and where their starts are written.
struct DocumentFile {
  // Megatron's: its starts are numbers of sequences, each of which begins at a byte.
  struct Sequences {
    std::int64_t count;
    std::int64_t pointers_at;  // i64[count], in bytes of the tokens
    std::int64_t token_bytes;
  };
  InputFiles::Entry entry;
  std::int64_t documents;
  std::int64_t tokens;     // of the token file
  std::int64_t starts_at;  // u64[documents]: tokens or, with sequences, their numbers
  std::optional<Sequences> sequences;
};

class DocumentIndex {
 public:
  // Of token files that follow each other; at least one, each with a document that begins at 0.
  explicit DocumentIndex(const std::vector<DocumentFile>& files);

  std::int64_t documents() const { return ends_.back(); }
  // starts[i] = the first token of document first + i; all tokens for document documents().
  // Throws IoError.
  void read(std::int64_t first, std::span<std::int64_t> starts) const;

 private:
  void read_file(std::size_t file, std::int64_t first, std::span<std::int64_t> starts) const;

  std::vector<DocumentFile> layouts_;
  InputFiles files_;
  std::vector<std::int64_t> ends_;        // [file]: documents up to and including it
  std::vector<std::int64_t> token_ends_;  // [file]: and tokens
};

// A NAME.docs: "STRATADC", u64 count, u64[count]. Reads the whole file in windows. Throws
// FormatError: it does not begin with 0, rise and end below `tokens`, or is not of its size.
DocumentFile open_documents(const std::string& path, std::int64_t tokens);

}  // namespace strata::engine
