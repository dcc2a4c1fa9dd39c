#include "offload/store/shard_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "io/direct_file.h"
#include "io/engine_storage.h"
#include "io/transfer.h"
#include "kernels/base/error.h"
#include "offload/store/store_files.h"

namespace strata::store {

namespace {

namespace fs = std::filesystem;

// Fewer than `bytes` where the file ends.
std::string read_part(const std::string& path, std::int64_t offset_bytes, std::int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_error<IoError>("open {}: {}", path, io::errno_text(errno));
  std::string part(static_cast<std::size_t>(bytes), '\0');
  file.seekg(offset_bytes).read(part.data(), bytes);
  if (file.bad()) {
    throw io::request_error(io::Operation::read, path, offset_bytes, bytes, io::errno_text(errno));
  }
  part.resize(static_cast<std::size_t>(file.gcount()));
  return part;
}

// What `read` throws, with the file that it is about.
template <typename Read>
auto naming(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const VersionError& error) {
    throw_error<VersionError>("store file {}: {}", path, error.what());
  } catch (const FormatError& error) {
    throw_error<FormatError>("store file {}: {}", path, error.what());
  }
}

FileHeader header_of(const std::string& path) {
  const std::string bytes = read_part(path, 0, kHeaderBytes);
  return naming(path, [&] { return decode_header(std::as_bytes(std::span(bytes))); });
}

Manifest read_manifest(const std::string& path, const FileHeader& header) {
  const std::string text = read_part(path, header.layout().manifest, header.manifest_bytes);
  return naming(path, [&] {
    if (manifest_checksum(text) != header.manifest_checksum) {
      throw FormatError("the manifest is damaged: its checksum differs");
    }
    Manifest manifest = decode_manifest(text);
    if (commit_table_bytes(manifest) != header.commit_table_bytes ||
        manifest.data_bytes > header.data_bytes) {
      throw FormatError("header and manifest contradict each other");
    }
    return manifest;
  });
}

// Headers of the files of one rank differ in this alone.
bool are_of_one_store(FileHeader a, const FileHeader& b) {
  a.directory = b.directory;
  return encode(a) == encode(b);
}

// How many files there are by the header of one; 0: it cannot be told.
std::size_t directories_of(const std::string& path) {
  try {
    return header_of(path).shares.size();
  } catch (const Error&) {
    return 0;
  }
}

// `paths` by directory, empty where no file of `files` is that directory's.
void check_complete(const std::vector<std::string>& paths, const std::vector<std::string>& files) {
  const auto missing = std::find(paths.begin(), paths.end(), "");
  if (missing == paths.end()) return;
  throw_error<ConfigError>(
      "store file {}: of the {} files of this name that make up the store, that of directory {} is "
      "missing (here: {}); name the directory that it is in",
      fs::path(files.front()).filename().string(), paths.size(), missing - paths.begin(),
      fmt::join(files, ", "));
}

}  // namespace

std::vector<std::string> find_shard_files(const std::vector<std::string>& directories,
                                          const std::string& run_id, int rank) {
  const std::string name = store_file_name({run_id, rank, rank + 1, ""});
  std::vector<std::string> files;
  for (const std::string& directory : directories) {
    const fs::path path = fs::path(directory) / name;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) continue;
    const bool is_known = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return fs::equivalent(file, path, ignored);
    });
    if (is_known) continue;
    files.push_back(path.string());
    if (files.size() == directories_of(files.front())) return files;
  }
  const bool is_readable = files.empty() || directories_of(files.front()) > 0;
  return is_readable ? std::vector<std::string>() : files;
}

ShardFiles read_shard_files(const std::vector<std::string>& files) {
  STRATA_CHECK(!files.empty());
  ShardFiles shard{header_of(files.front()), {}, {}};
  FileHeader& first = shard.header;
  shard.paths.resize(first.shares.size());
  for (const std::string& file : files) {
    const FileHeader header = header_of(file);
    if (!are_of_one_store(header, first)) {
      throw_error<FormatError>("store file {}: it does not belong to the store of {}", file,
                               files.front());
    }
    std::string& place = shard.paths[static_cast<std::size_t>(header.directory)];
    if (!place.empty()) {
      throw_error<FormatError>(
          "store file {}: it is the same part of the store as {}; move the copy away", file, place);
    }
    place = file;
  }
  check_complete(shard.paths, files);
  first.directory = 0;
  shard.manifest = read_manifest(shard.paths.front(), first);
  return shard;
}

FoundCommits look_at_commits(const ShardFiles& files) {
  const std::string& path = files.paths.front();
  const std::string directory = fs::path(path).parent_path().string();
  io::FileDescriptor descriptor = io::open_file(path, O_RDONLY | O_DIRECT);
  if (!descriptor.is_open()) throw_error<IoError>("open {}: {}", path, io::errno_text(errno));
  const io::DirectFile file(std::move(descriptor), directory, path);
  const std::unique_ptr<io::Storage> storage = io::open_engine_storage(
      file, files.header.layout().bytes, {.kind = io::EngineKind::threads}, nullptr);
  const std::int64_t bytes = CommitLog::staging_bytes(files.manifest);
  Budget budget("commit tables", bytes);
  const AlignedBuffer staging(budget, "commit table", bytes);
  return CommitLog(*storage, *storage, files.header, files.manifest, staging.span()).read();
}

}  // namespace strata::store
