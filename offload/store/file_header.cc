#include "offload/store/file_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/checksum.h"
#include "offload/store/field.h"

namespace strata::store {

namespace {

constexpr std::string_view kMagic("STRATA\x1A\n", 8);
constexpr std::size_t kRunIdOffset = 16;
constexpr Field<std::int64_t> kVersion{8};
constexpr Field<std::int64_t> kCreated{32};
constexpr Field<std::int32_t> kRank{40};
constexpr Field<std::int32_t> kWorldSize{44};
constexpr Field<std::int32_t> kDirectory{48};
constexpr Field<std::int32_t> kDirectories{52};
constexpr Field<std::int64_t> kProcessId{56};
constexpr Field<std::int64_t> kMetadataBytes{64};
constexpr Field<std::int64_t> kManifestBytes{72};
constexpr Field<std::uint64_t> kManifestChecksum{80};
constexpr Field<std::int64_t> kCommitTableBytes{88};
constexpr Field<std::int64_t> kDataBytes{96};
constexpr Field<std::int64_t> kStripeBytes{104};
constexpr TextField kHost{112, 256};
constexpr TextField kRunFolder{368, 4096};
constexpr std::size_t kSharesOffset = 4464;  // weight, stripes: 64 bits each, of each directory
constexpr std::size_t kShareBytes = 16;
constexpr Field<std::uint64_t> kChecksum{kHeaderBytes - 8};

constexpr std::uint64_t kHeaderSeed = 0x68656164;
constexpr std::uint64_t kManifestSeed = 0x6D616E69;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 60;
constexpr std::int64_t kStripeBytesMax = std::int64_t{1} << 40;
constexpr std::int64_t kWeightMax = std::int64_t{1} << 50;
constexpr std::int64_t kRanksMax = 1 << 20;

Field<std::int64_t> weight_field(std::size_t d) { return {kSharesOffset + d * kShareBytes}; }
Field<std::int64_t> stripes_field(std::size_t d) { return {kSharesOffset + d * kShareBytes + 8}; }

std::string without_control_characters(std::string text) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7F'; };
  std::replace_if(text.begin(), text.end(), is_control, '?');
  return text;
}

void check_whole_pages(const char* name, std::int64_t bytes, std::int64_t last) {
  check_range(name, bytes, 0, last);
  if (bytes % kPageBytes != 0) throw_error<FormatError>("{} is {}, no whole pages", name, bytes);
}

void check(const FileHeader& header) {
  check_range("the world size", header.world_size, 1, kRanksMax);
  check_range("the rank", header.rank, 0, header.world_size - 1);
  check_range("the directory", header.directory, 0, header.directories() - 1);
  check_range("the manifest's length", header.manifest_bytes, 1, kManifestBytesMax);
  check_whole_pages("a commit table's length", header.commit_table_bytes, kBytesMax);
  check_whole_pages("the data's length", header.data_bytes, kBytesMax);
  check_whole_pages("a stripe's length", header.stripe_bytes, kStripeBytesMax);
  check_range("a stripe's length", header.stripe_bytes, kPageBytes, kStripeBytesMax);
  const std::int64_t stripes = ceil_div(header.data_bytes, header.stripe_bytes);
  std::int64_t dealt = 0;
  for (const io::StripeShare& share : header.shares) {
    check_range("a directory's weight", share.weight, 1, kWeightMax);
    check_range("a directory's stripes", share.stripes, 0, stripes - dealt);
    dealt += share.stripes;
  }
  check_range("the directories' stripes", dealt, stripes, stripes);
}

}  // namespace

std::string format_run_id(const RunId& id) {
  std::string text;
  for (const std::byte byte : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

RunId parse_run_id(std::string_view text) {
  RunId id{};
  const auto digit = [&](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    throw_error<FormatError>("'{}' is not a run id of 32 hexadecimal digits", text);
  };
  if (text.size() != 2 * id.size()) digit('?');
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return id;
}

MetadataLayout metadata_layout(std::int64_t manifest_bytes, std::int64_t commit_table_bytes) {
  MetadataLayout layout;
  layout.superblocks = {kHeaderBytes, kHeaderBytes + kSuperblockBytes};
  layout.manifest = kHeaderBytes + 2 * kSuperblockBytes;
  const std::int64_t tables = layout.manifest + round_up(manifest_bytes, kPageBytes);
  layout.commit_tables = {tables, tables + commit_table_bytes};
  layout.bytes = tables + 2 * commit_table_bytes;
  return layout;
}

std::vector<std::byte> encode(const FileHeader& header) {
  STRATA_CHECK(header.directories() <= kDirectoriesMax);
  check(header);
  std::vector<std::byte> bytes(kHeaderBytes);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kRunIdOffset, header.run_id.data(), header.run_id.size());
  kVersion.put(bytes, kFormatVersion);
  kCreated.put(bytes, header.created_s);
  kRank.put(bytes, header.rank);
  kWorldSize.put(bytes, header.world_size);
  kDirectory.put(bytes, header.directory);
  kDirectories.put(bytes, header.directories());
  kProcessId.put(bytes, header.process_id);
  kMetadataBytes.put(bytes, header.layout().bytes);
  kManifestBytes.put(bytes, header.manifest_bytes);
  kManifestChecksum.put(bytes, header.manifest_checksum);
  kCommitTableBytes.put(bytes, header.commit_table_bytes);
  kDataBytes.put(bytes, header.data_bytes);
  kStripeBytes.put(bytes, header.stripe_bytes);
  kHost.put(bytes, header.host);
  kRunFolder.put(bytes, header.run_folder);
  for (std::size_t d = 0; d < header.shares.size(); ++d) {
    weight_field(d).put(bytes, header.shares[d].weight);
    stripes_field(d).put(bytes, header.shares[d].stripes);
  }
  kChecksum.put(bytes, checksum(bytes.data(), kHeaderBytes - 8, kHeaderSeed));
  return bytes;
}

FileHeader decode_header(std::span<const std::byte> bytes) {
  if (static_cast<std::int64_t>(bytes.size()) < kHeaderBytes) {
    throw_error<FormatError>("{} bytes are too few for a header of {}", bytes.size(), kHeaderBytes);
  }
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw FormatError("it does not begin as a store of Strata does");
  }
  if (kChecksum.get(bytes) != checksum(bytes.data(), kHeaderBytes - 8, kHeaderSeed)) {
    throw FormatError("the header is damaged: its checksum differs");
  }
  if (const std::int64_t version = kVersion.get(bytes); version != kFormatVersion) {
    throw_error<VersionError>("a store of format version {}; this program reads {}", version,
                              kFormatVersion);
  }
  FileHeader header;
  std::memcpy(header.run_id.data(), bytes.data() + kRunIdOffset, header.run_id.size());
  header.created_s = kCreated.get(bytes);
  header.rank = kRank.get(bytes);
  header.world_size = kWorldSize.get(bytes);
  header.directory = kDirectory.get(bytes);
  header.process_id = kProcessId.get(bytes);
  header.manifest_bytes = kManifestBytes.get(bytes);
  header.manifest_checksum = kManifestChecksum.get(bytes);
  header.commit_table_bytes = kCommitTableBytes.get(bytes);
  header.data_bytes = kDataBytes.get(bytes);
  header.stripe_bytes = kStripeBytes.get(bytes);
  header.host = without_control_characters(kHost.get(bytes, "host name"));
  header.run_folder = without_control_characters(kRunFolder.get(bytes, "run folder"));
  const std::int32_t directories = kDirectories.get(bytes);
  check_range("the number of directories", directories, 1, kDirectoriesMax);
  for (std::size_t d = 0; d < static_cast<std::size_t>(directories); ++d) {
    header.shares.push_back({weight_field(d).get(bytes), stripes_field(d).get(bytes)});
  }
  check(header);
  const std::int64_t metadata_bytes = header.layout().bytes;
  check_range("the metadata's length", kMetadataBytes.get(bytes), metadata_bytes, metadata_bytes);
  return header;
}

std::uint64_t manifest_checksum(std::string_view text) {
  return checksum(reinterpret_cast<const std::byte*>(text.data()),
                  static_cast<std::int64_t>(text.size()), kManifestSeed);
}

}  // namespace strata::store
