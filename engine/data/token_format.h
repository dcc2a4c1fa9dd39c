// The formats of token files, one source file each: what a file's content says about where its
// tokens lie. docs/data.md has the formats; token_files.h reads tokens from a layout.
//
// All throw FormatError for a damaged file and IoError when reading fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/data/document_index.h"
#include "engine/data/input_file.h"

namespace strata::engine {

enum class TokenType { uint8, uint16, int32, uint32 };  // little endian
std::int64_t bytes_of(TokenType type);
std::int64_t load_token(TokenType type, const std::byte* bytes);

struct TokenLayout {
  const char* format;  // what a count of them is of: "llm.c tokens"; files of one name may be mixed
  TokenType type;
  std::int64_t offset_bytes;
  std::int64_t tokens;
};

// Nothing: the file has no llm.c header, of whatever version.
std::optional<TokenLayout> llmc_layout(const InputFile& file);

TokenLayout nanogpt_layout(const InputFile& file);

// Throws UntokenizedFile for a model that is not byte-level.
TokenLayout text_layout(const InputFile& file, std::int64_t vocabulary);

struct MegatronPaths {
  std::string index;   // .idx
  std::string tokens;  // .bin
};
// The pair that a path stands for: the .idx, a .bin beside an .idx, or what both names begin with.
std::optional<MegatronPaths> megatron_paths(const std::string& path);

struct MegatronLayout {
  TokenLayout tokens;      // of the .bin
  DocumentFile documents;  // where the .idx says that they begin
};
// Checks the whole index, of which it keeps nothing.
MegatronLayout megatron_layout(const InputFile& index, const InputFile& tokens);

}  // namespace strata::engine
