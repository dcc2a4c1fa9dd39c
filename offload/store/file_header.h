// FileHeader: the first bytes of every file of a store: whose it is, which of its directories it is
// in, and where the rest of the metadata lies. docs/store-format.md has the offsets.
//
//   | header | superblock 0 | superblock 1 | manifest | commit table 0 | commit table 1 | stripes …
//
// Pure functions on bytes. Decoding trusts nothing, and throws FormatError: VersionError for an
// intact header of another version of the format. In the texts of a decoded header, which are for
// people, '?' stands for what could command a terminal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/stripe_map.h"
#include "kernels/base/error.h"

namespace strata::store {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr std::int64_t kHeaderBytes = 8192;
inline constexpr std::int64_t kSuperblockBytes = 4096;
inline constexpr int kDirectoriesMax = 128;
inline constexpr std::int64_t kManifestBytesMax = std::int64_t{1} << 28;

using RunId = std::array<std::byte, 16>;
// 32 hex digits, lower case. parse: throws FormatError.
std::string format_run_id(const RunId& id);
RunId parse_run_id(std::string_view text);

class VersionError final : public FormatError {
  using FormatError::FormatError;
};

// Where the metadata of a file lies; each piece starts on a page.
struct MetadataLayout {
  std::array<std::int64_t, 2> superblocks;
  std::int64_t manifest = 0;
  std::array<std::int64_t, 2> commit_tables;
  std::int64_t bytes = 0;  // of all of it: the stripes begin here
};
MetadataLayout metadata_layout(std::int64_t manifest_bytes, std::int64_t commit_table_bytes);

struct FileHeader {
  RunId run_id{};
  std::int64_t created_s = 0;  // since 1970
  int rank = 0;
  int world_size = 1;
  int directory = 0;  // index of the file among those of the rank
  std::int64_t process_id = 0;
  std::string host;
  std::string run_folder;  // empty: a run without one
  std::int64_t manifest_bytes = 0;
  std::uint64_t manifest_checksum = 0;
  std::int64_t commit_table_bytes = 0;
  std::int64_t data_bytes = 0;  // of the volume, over all directories
  std::int64_t stripe_bytes = 0;
  std::vector<io::StripeShare> shares;  // of each directory

  int directories() const { return static_cast<int>(shares.size()); }
  MetadataLayout layout() const { return metadata_layout(manifest_bytes, commit_table_bytes); }
};

// kHeaderBytes.
std::vector<std::byte> encode(const FileHeader& header);
FileHeader decode_header(std::span<const std::byte> bytes);

// Of a manifest's text.
std::uint64_t manifest_checksum(std::string_view text);

}  // namespace strata::store
