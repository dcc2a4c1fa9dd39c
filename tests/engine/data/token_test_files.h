// Token files for tests, made byte by byte from the formats' descriptions.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/token_data.h"
#include "tests/support/temporary_folder.h"

namespace strata::test {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return bytes_of(header);
}

// A Megatron index, of which a test changes what it wants to be wrong.
struct MegatronIndex {
  std::string magic{"MMIDIDX\0\0", 9};
  std::vector<std::uint64_t> version{1};
  std::vector<std::uint8_t> type{8};  // uint16
  std::vector<std::uint64_t> counts;  // of sequences and document indices; empty: as they are
  std::vector<std::int32_t> lengths;  // tokens
  std::vector<std::int64_t> pointers;
  std::vector<std::int64_t> documents;

  // Sequences of these lengths, one after another, each a document.
  MegatronIndex(std::vector<std::int32_t> tokens, std::uint8_t type_code, std::int64_t token_bytes)
      : type{type_code}, lengths(std::move(tokens)), documents{0} {
    std::int64_t end = 0;
    for (const std::int32_t length : lengths) {
      pointers.push_back(end);
      end += length * token_bytes;
      documents.push_back(static_cast<std::int64_t>(pointers.size()));
    }
  }

  std::string bytes() const {
    const std::vector<std::uint64_t> sizes = {lengths.size(), documents.size()};
    return magic + bytes_of(version) + bytes_of(type) + bytes_of(counts.empty() ? sizes : counts) +
           bytes_of(lengths) + bytes_of(pointers) + bytes_of(documents);
  }
};

// A folder that tests put token files into.
class DataFolder : public TemporaryFolder {
 public:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
};

// The tokens alone.
inline std::unique_ptr<engine::TokenSource> open_tokens(const std::string& names,
                                                        std::int64_t vocabulary) {
  return engine::open_token_data(names, vocabulary).tokens;
}

inline std::vector<std::int32_t> read_all(const engine::TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.tokens()));
  source.read(0, ids);
  return ids;
}

}  // namespace strata::test
