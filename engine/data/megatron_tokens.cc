// Megatron-LM's indexed data set: prefix.bin has the tokens, prefix.idx the sequences in it. After
// the header the index has i32 lengths[sequences] in tokens, i64 pointers[sequences] in bytes and
// i64 document_index[documents] in sequences, of which the first is 0 and the last all of them.
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "engine/data/array_reader.h"
#include "engine/data/document_index.h"
#include "engine/data/token_format.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kIndexVersion = 1;
constexpr std::int64_t kIndexHeaderBytes = 34;  // magic, u64 version, u8 type, u64 counts[2]
constexpr std::int64_t kLengthBytes = 4;
constexpr std::int64_t kPointerBytes = 8;
constexpr std::int64_t kDocumentBytes = 8;

struct IndexHeader {
  TokenLayout layout;      // without tokens
  std::int64_t sequences;  // the sizes of the file's arrays, which make its size
  std::int64_t documents;
};

template <typename T>
T number_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// The types by their code in the index.
TokenLayout layout_of_type(const InputFile& index, std::uint8_t code) {
  constexpr std::array kNames = {"code 0", "uint8",   "int8",    "int16", "int32",
                                 "int64",  "float64", "float32", "uint16"};
  if (code == 4) return {"Megatron int32 tokens", TokenType::int32, 0, 0};
  if (code == 8) return {"Megatron uint16 tokens", TokenType::uint16, 0, 0};
  throw_error<FormatError>(
      "'{}' is the index of tokens of type {}; Strata reads Megatron data of uint16 and int32",
      index.path(), code < kNames.size() ? kNames[code] : fmt::format("code {}", code));
}

IndexHeader read_header(const InputFile& index) {
  std::array<std::byte, kIndexHeaderBytes> bytes{};
  if (index.bytes() >= kIndexHeaderBytes) index.read(0, bytes);
  if (std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0) {
    throw_error<FormatError>("'{}' is not a Megatron index: it has no MMIDIDX header",
                             index.path());
  }
  const auto version = number_at<std::uint64_t>(&bytes[9]);
  if (version != kIndexVersion) {
    throw_error<FormatError>("'{}' is a Megatron index of version {}; Strata reads version {}",
                             index.path(), version, kIndexVersion);
  }
  const TokenLayout layout = layout_of_type(index, number_at<std::uint8_t>(&bytes[17]));
  const auto sequences = number_at<std::uint64_t>(&bytes[18]);
  const auto documents = number_at<std::uint64_t>(&bytes[26]);
  const auto limit = static_cast<std::uint64_t>(index.bytes());  // keeps products below 2^63
  const std::uint64_t left = limit - kIndexHeaderBytes;
  const bool possible = sequences <= limit / 12 && documents <= limit / 8;
  const std::uint64_t needed =
      possible ? sequences * (kLengthBytes + kPointerBytes) + documents * kDocumentBytes : 0;
  if (possible && sequences > 0 && left == needed + sequences) {
    throw_error<FormatError>(
        "'{}' has a mode for each sequence, as multimodal data have; Strata reads text data",
        index.path());
  }
  if (!possible || left != needed) {
    throw_error<FormatError>(
        "'{}' is damaged: its header promises {} sequences and {} document indices, which do not "
        "make the {} bytes that it has",
        index.path(), sequences, documents, index.bytes());
  }
  return {layout, static_cast<std::int64_t>(sequences), static_cast<std::int64_t>(documents)};
}

// The sequences follow each other in the .bin, all of it: then it can be read as one.
void check_sequences(const IndexHeader& header, const InputFile& index, const InputFile& tokens) {
  const std::int64_t token_bytes = bytes_of(header.layout.type);
  const std::int64_t pointers_at = kIndexHeaderBytes + header.sequences * kLengthBytes;
  ArrayReader<std::int32_t> lengths(index, kIndexHeaderBytes, header.sequences);
  ArrayReader<std::int64_t> pointers(index, pointers_at, header.sequences);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < header.sequences; ++i) {
    const std::int64_t length = lengths.next();
    const std::int64_t pointer = pointers.next();
    if (pointer != end) {
      throw_error<FormatError>(
          "'{}': sequence {} begins at byte {} of '{}', and not at {}, where the one before it "
          "ends; Strata reads sequences that follow each other",
          index.path(), i, pointer, tokens.path(), end);
    }
    if (length < 0 || length > (tokens.bytes() - end) / token_bytes) {
      throw_error<FormatError>("'{}': sequence {} at byte {} has length {}, but '{}' has {} bytes",
                               index.path(), i, pointer, length, tokens.path(), tokens.bytes());
    }
    end += length * token_bytes;
  }
  if (end != tokens.bytes()) {
    throw_error<FormatError>("'{}' is the index of {} bytes of tokens, but '{}' has {}",
                             index.path(), end, tokens.path(), tokens.bytes());
  }
}

void check_documents(const IndexHeader& header, const InputFile& index) {
  const std::int64_t start = index.bytes() - header.documents * kDocumentBytes;
  ArrayReader<std::int64_t> documents(index, start, header.documents);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < header.documents; ++i) {
    const std::int64_t sequence = documents.next();
    if (sequence < last || sequence > (i == 0 ? 0 : header.sequences)) {
      throw_error<FormatError>(
          "'{}' is damaged: entry {} of its document index is {}, after {}, of {} sequences",
          index.path(), i, sequence, last, header.sequences);
    }
    last = sequence;
  }
  if (last != header.sequences || header.documents == 0) {
    throw_error<FormatError>(
        "'{}' is damaged: its document index has {} entries and ends at sequence {} of {}",
        index.path(), header.documents, last, header.sequences);
  }
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::optional<MegatronPaths> megatron_paths(const std::string& path) {
  const bool is_index = path.ends_with(".idx");
  const std::string prefix =
      is_index || path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path;
  const bool is_prefix = prefix == path;
  MegatronPaths paths{prefix + ".idx", prefix + ".bin"};
  if (!is_index && (!is_file(paths.index) || (is_prefix && is_file(path)))) return std::nullopt;
  return paths;
}

MegatronLayout megatron_layout(const InputFile& index, const InputFile& tokens) {
  const IndexHeader header = read_header(index);
  check_sequences(header, index, tokens);
  check_documents(header, index);
  const std::int64_t token_bytes = bytes_of(header.layout.type);
  MegatronLayout layout{header.layout, {}};
  layout.tokens.tokens = tokens.bytes() / token_bytes;
  layout.documents = {
      {index.path(), index.identity()},
      header.documents - 1,  // the last entry is the end
      layout.tokens.tokens,
      index.bytes() - header.documents * kDocumentBytes,
      DocumentFile::Sequences{header.sequences, kIndexHeaderBytes + header.sequences * kLengthBytes,
                              token_bytes}};
  return layout;
}

}  // namespace strata::engine
