#include "offload/store/store_files.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "io/transfer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "offload/store/superblock.h"

namespace strata::store {

namespace {

// What is the same in all files of a rank.
FileHeader make_header(const io::Volume& volume, const StoreIdentity& identity,
                       const Manifest& manifest, const std::string& text) {
  if (volume.devices() > kDirectoriesMax) {
    throw_error<ConfigError>("a store lies in at most {} directories, not {}", kDirectoriesMax,
                             volume.devices());
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  FileHeader header;
  header.run_id = parse_run_id(identity.run_id);
  header.created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  header.rank = identity.rank;
  header.world_size = identity.world_size;
  header.process_id = ::getpid();
  header.host = host_name();
  if (!identity.run_folder.empty()) {
    header.run_folder = std::filesystem::absolute(identity.run_folder).lexically_normal();
  }
  header.manifest_bytes = static_cast<std::int64_t>(text.size());
  header.manifest_checksum = manifest_checksum(text);
  header.commit_table_bytes = commit_table_bytes(manifest);
  header.data_bytes = volume.capacity_bytes();
  header.stripe_bytes = volume.stripe_bytes();
  for (int d = 0; d < volume.devices(); ++d) header.shares.push_back(volume.share(d));
  return header;
}

bool all_of_kind(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

}  // namespace

std::string new_run_id() {
  RunId id;
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    throw_error<IoError>("no random number for a run id: {}", io::errno_text(errno));
  }
  return format_run_id(id);
}

std::string store_file_name(const StoreIdentity& identity) {
  return fmt::format("strata-{}-rank{}.store", identity.run_id, identity.rank);
}

bool is_store_file_name(std::string_view name) {
  constexpr std::string_view kPrefix = "strata-", kRank = "-rank", kSuffix = ".store";
  constexpr std::size_t kRunIdDigits = 32;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  return all_of_kind(name.substr(0, kRunIdDigits), "0123456789abcdef") &&
         name.substr(std::min(kRunIdDigits, name.size())).starts_with(kRank) &&
         all_of_kind(name.substr(kRunIdDigits + kRank.size()), "0123456789");
}

std::int64_t store_metadata_bytes(const Manifest& manifest) {
  return metadata_layout(static_cast<std::int64_t>(encode(manifest).size()),
                         commit_table_bytes(manifest))
      .bytes;
}

FileHeader write_header(io::Volume& volume, const StoreIdentity& identity,
                        const Manifest& manifest) {
  const std::string text = encode(manifest);
  FileHeader header = make_header(volume, identity, manifest, text);
  const std::int64_t manifest_at = header.layout().manifest;
  STRATA_CHECK(volume.metadata_bytes() == header.layout().bytes);
  // Before the run's own reservations, and gone by then.
  const std::int64_t bytes = manifest_at + round_up(header.manifest_bytes, kPageBytes);
  Budget budget("store metadata", bytes);
  const AlignedBuffer buffer(budget, "header and manifest", bytes);
  std::memcpy(buffer.data() + manifest_at, text.data(), text.size());
  for (int d = 0; d < volume.devices(); ++d) {
    header.directory = d;
    const std::vector<std::byte> encoded = encode(header);
    std::memcpy(buffer.data(), encoded.data(), encoded.size());
    io::IoGroup group;
    volume.file(d).write(0, buffer.span(), group);  // superblocks too: erased
    group.wait();
    volume.file(d).flush(group);
    group.wait();
  }
  header.directory = 0;
  return header;
}

FileHeader read_header(io::Volume& volume) {
  Budget budget("store header", kHeaderBytes);
  const AlignedBuffer buffer(budget, "header", kHeaderBytes);
  io::IoGroup group;
  volume.file(0).read(0, buffer.span(), group);
  group.wait();
  return decode_header({buffer.data(), static_cast<std::size_t>(kHeaderBytes)});
}

}  // namespace strata::store
