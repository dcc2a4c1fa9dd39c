#include "io/volume.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "io/check_request.h"
#include "io/directory_locks.h"
#include "io/drive_rate.h"
#include "io/drive_space.h"
#include "io/engine_storage.h"
#include "io/volume_dealing.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr int kRanksMax = 64;  // of a machine, that may all start at once

}  // namespace

// One directory's part. The file is closed after its engine has ended.
struct Volume::Directory {
  std::optional<VolumeFile> file;  // none: of volume_over()
  std::unique_ptr<EngineStorage> storage;
};

// Dealing again gives the same places (stripe_map.h).
Volume::Volume(const VolumeFiles& files, std::vector<Directory> directories)
    : capacity_bytes_(files.capacity_bytes),
      metadata_bytes_(files.metadata_bytes),
      stripe_bytes_(files.stripe_bytes),
      map_(files.shares, ceil_div(files.capacity_bytes, files.stripe_bytes)),
      directories_(std::move(directories)) {
  for (const Directory& directory : directories_) {
    alignment_bytes_ = std::max(alignment_bytes_, directory.storage->alignment_bytes());
  }
  capacity_bytes_ = round_up(capacity_bytes_, alignment_bytes_);
}

Volume::~Volume() = default;

void Volume::read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) {
  check_request(*this, offset_bytes, destination);
  split(offset_bytes, destination.bytes(),
        [&](const Directory& directory, std::int64_t at, std::int64_t begin, std::int64_t bytes) {
          directory.storage->read(at, destination.sub(begin, bytes), group);
        });
}

void Volume::write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) {
  check_request(*this, offset_bytes, source);
  split(offset_bytes, source.bytes(),
        [&](const Directory& directory, std::int64_t at, std::int64_t begin, std::int64_t bytes) {
          directory.storage->write(at, source.sub(begin, bytes), group);
        });
}

void Volume::flush(IoGroup& group) {
  for (const Directory& directory : directories_) directory.storage->flush(group);
}

void Volume::register_memory(AlignedSpan memory) {
  for (const Directory& directory : directories_) directory.storage->register_memory(memory);
}

void Volume::unregister_memory(AlignedSpan memory) {
  for (const Directory& directory : directories_) directory.storage->unregister_memory(memory);
}

int Volume::devices() const { return static_cast<int>(directories_.size()); }

std::string Volume::device_path(int device) const {
  const Directory& directory = at(device);
  return directory.file ? directory.file->file().directory() : directory.storage->device_path(0);
}

std::string Volume::locate(std::int64_t offset_bytes) const {
  const StripePlace place = map_.place(offset_bytes / stripe_bytes_);
  return at(place.directory).storage->locate(offset_in_file(place, offset_bytes));
}

StorageTraffic Volume::device_traffic(int device) const {
  return at(device).storage->device_traffic(0);
}

Storage& Volume::file(int device) { return *at(device).storage; }

StripeShare Volume::share(int device) const {
  return map_.shares()[static_cast<std::size_t>(device)];
}

void Volume::publish() {
  for (Directory& directory : directories_) {
    if (directory.file) directory.file->publish();
  }
  published_ = true;
  if (kept_) keep();
}

void Volume::keep() noexcept {
  kept_ = true;
  if (!published_) return;
  for (Directory& directory : directories_) {
    if (directory.file) directory.file->keep();
  }
}

void Volume::share_lock() {
  for (Directory& directory : directories_) {
    if (directory.file) directory.file->share_lock();
  }
}

void Volume::discard(std::int64_t offset_bytes, std::int64_t bytes) {
  split(offset_bytes, bytes,
        [](const Directory& directory, std::int64_t at, std::int64_t, std::int64_t part_bytes) {
          if (directory.file) io::discard(directory.file->file(), at, part_bytes);
        });
}

void Volume::reserve() {
  for (Directory& directory : directories_) {
    if (directory.file) preallocate(directory.file->file(), directory.storage->capacity_bytes());
  }
}

void Volume::remove() {
  for (Directory& directory : directories_) {
    if (directory.file) directory.file->remove();
  }
}

Volume::Directory Volume::start_directory(VolumeFile file, const VolumeFiles& files, std::size_t d,
                                          Tracer* tracer) {
  auto storage = open_engine_storage(file.file(), files.file_bytes(d), files.engine, tracer);
  return {std::move(file), std::move(storage)};
}

const Volume::Directory& Volume::at(int device) const {
  return directories_[static_cast<std::size_t>(device)];
}

std::int64_t Volume::offset_in_file(const StripePlace& place, std::int64_t offset_bytes) const {
  return metadata_bytes_ + place.index * stripe_bytes_ + offset_bytes % stripe_bytes_;
}

template <typename Part>
void Volume::split(std::int64_t offset_bytes, std::int64_t bytes, Part part) {
  const std::int64_t end = offset_bytes + bytes;
  for (std::int64_t begin = offset_bytes; begin < end;) {
    std::int64_t stripe = begin / stripe_bytes_;
    const StripePlace place = map_.place(stripe);
    // A directory's stripes follow each other in its file: neighbours in it are one transfer.
    do {
      ++stripe;
    } while (stripe * stripe_bytes_ < end && map_.place(stripe).directory == place.directory);
    const std::int64_t part_bytes = std::min(stripe * stripe_bytes_, end) - begin;
    part(at(place.directory), offset_in_file(place, begin), begin - offset_bytes, part_bytes);
    begin += part_bytes;
  }
}

// "1.5 GiB in /a (67%), /b (33%); io_uring, 64 in flight, registered file"
std::string Volume::description() const {
  std::string directories;
  for (int d = 0; d < devices(); ++d) {
    if (d > 0) directories += ", ";
    directories += device_path(d);
    if (devices() > 1) {
      directories += fmt::format(" ({:.0f}%)", 100 * static_cast<double>(share(d).stripes) /
                                                   static_cast<double>(map_.stripes()));
    }
  }
  return fmt::format("{} in {}; {}", format_bytes(capacity_bytes_), directories,
                     at(0).storage->description());
}

std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer) {
  STRATA_CHECK(!options.directories.empty() && options.capacity_bytes > 0);
  STRATA_CHECK(options.metadata_bytes >= 0 && options.metadata_bytes % kPageBytes == 0);
  STRATA_CHECK(options.stripe_bytes > 0 && options.stripe_bytes % kPageBytes == 0);
  const auto measured =
      std::ranges::count(options.directories, 0.0, &VolumeDirectory::bytes_per_second);
  const DirectoryLocks locks(paths_of(options.directories),
                             options.engine.timeout + kRanksMax * measured * kMeasuringTimeMax);
  const VolumeFiles files{.paths = {},
                          .shares = deal_stripes(options).shares(),
                          .capacity_bytes = options.capacity_bytes,
                          .metadata_bytes = options.metadata_bytes,
                          .stripe_bytes = options.stripe_bytes,
                          .engine = options.engine};
  std::vector<Volume::Directory> directories;
  for (std::size_t d = 0; d < files.shares.size(); ++d) {
    directories.push_back(Volume::start_directory(
        VolumeFile(options.directories[d].path, options.file_name, files.file_bytes(d)), files, d,
        tracer));
  }
  return std::unique_ptr<Volume>(new Volume(files, std::move(directories)));
}

std::unique_ptr<Volume> open_volume(const VolumeFiles& files, VolumeAccess access, Tracer* tracer) {
  STRATA_CHECK(!files.paths.empty() && files.paths.size() == files.shares.size());
  std::vector<Volume::Directory> directories;
  for (std::size_t d = 0; d < files.shares.size(); ++d) {
    directories.push_back(Volume::start_directory(
        VolumeFile::open(files.paths[d], access, files.file_bytes(d)), files, d, tracer));
  }
  return std::unique_ptr<Volume>(new Volume(files, std::move(directories)));
}

std::unique_ptr<Volume> volume_over(std::vector<std::unique_ptr<EngineStorage>> storages,
                                    const VolumeFiles& files) {
  STRATA_CHECK(!storages.empty() && storages.size() == files.shares.size());
  std::vector<Volume::Directory> directories;
  for (std::size_t d = 0; d < storages.size(); ++d) {
    STRATA_CHECK(storages[d]->capacity_bytes() >= files.file_bytes(d));
    directories.push_back({std::nullopt, std::move(storages[d])});
  }
  return std::unique_ptr<Volume>(new Volume(files, std::move(directories)));
}

}  // namespace strata::io
