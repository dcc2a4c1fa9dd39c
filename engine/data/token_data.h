// TokenData: token files with what lies beside them. NAME.bin has, where somebody made them,
// NAME.mask (which tokens are trained), NAME.docs (where documents begin) and NAME.json (who made
// them): docs/data.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/document_index.h"
#include "engine/data/token_mask.h"
#include "engine/data/token_source.h"

namespace strata::engine {

// What says where documents begin.
enum class DocumentsFrom {
  nothing,
  docs_files,  // made for this: without --pack each document is a sequence of its own
  megatron,    // an index that every such file has: without --pack it is not used
};

struct TokenData {
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<TokenMask> mask;           // null: every token is trained
  std::unique_ptr<DocumentIndex> documents;  // null with DocumentsFrom::nothing
  DocumentsFrom documents_from = DocumentsFrom::nothing;

  // The tokenizer that made the tokens, by the hash of its vocabulary.
  struct Tokenizer {
    std::string file;  // of the tokens
    std::string hash;  // "": not known
  };
  std::vector<Tokenizer> tokenizers;  // of each file of tokens; none of text, which needs none
  std::optional<std::int64_t> trained_tokens;  // as the NAME.json of all files say
};

// The files that a list of names and patterns stands for (data_paths.h), one after another. Throws
// ConfigError (missing, unreadable, named twice, of two formats, a text for a model with another
// vocabulary, a companion that other files of the list do not have, …) or FormatError (a damaged
// header, index or companion, a length that does not match it).
TokenData open_token_data(const std::string& names, std::int64_t vocabulary);

// tokens[i] = token first + i, targets[i] = the one after it, or ops::kIgnoredTarget where `mask`
// (may be null) says so. Both spans have one length.
void read_rows(const TokenSource& source, const TokenMask* mask, std::int64_t first,
               std::span<std::int32_t> tokens, std::span<std::int32_t> targets);

}  // namespace strata::engine
