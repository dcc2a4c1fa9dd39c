#include "io/volume.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "io/check_request.h"
#include "io/directory_locks.h"
#include "io/drive_rate.h"
#include "io/engine_storage.h"
#include "io/volume_dealing.h"
#include "io/volume_file.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr int kRanksMax = 64;  // of a machine, that may all start at once

}  // namespace

// One directory's part. The file is closed after its engine has ended.
struct Volume::Directory {
  VolumeFile file;
  std::unique_ptr<EngineStorage> storage;
};

Volume::Volume(const VolumeOptions& options, StripeMap map, std::vector<Directory> directories)
    : capacity_bytes_(options.capacity_bytes),
      metadata_bytes_(options.metadata_bytes),
      stripe_bytes_(options.stripe_bytes),
      map_(std::move(map)),
      directories_(std::move(directories)) {
  for (const Directory& directory : directories_) {
    alignment_bytes_ = std::max(alignment_bytes_, directory.storage->alignment_bytes());
  }
  capacity_bytes_ = round_up(capacity_bytes_, alignment_bytes_);
}

Volume::~Volume() = default;

void Volume::read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) {
  check_request(*this, offset_bytes, destination);
  split(offset_bytes, destination, [&](EngineStorage& storage, std::int64_t at, AlignedSpan part) {
    storage.read(at, part, group);
  });
}

void Volume::write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) {
  check_request(*this, offset_bytes, source);
  split(offset_bytes, source, [&](EngineStorage& storage, std::int64_t at, AlignedSpan part) {
    storage.write(at, part, group);
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

std::string Volume::device_path(int device) const { return at(device).file.file().directory(); }

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
  for (Directory& directory : directories_) directory.file.publish();
}

void Volume::keep() noexcept {
  for (Directory& directory : directories_) directory.file.keep();
}

const Volume::Directory& Volume::at(int device) const {
  return directories_[static_cast<std::size_t>(device)];
}

std::int64_t Volume::offset_in_file(const StripePlace& place, std::int64_t offset_bytes) const {
  return metadata_bytes_ + place.index * stripe_bytes_ + offset_bytes % stripe_bytes_;
}

template <typename TransferPart>
void Volume::split(std::int64_t offset_bytes, AlignedSpan span, TransferPart transfer) {
  const std::int64_t end = offset_bytes + span.bytes();
  for (std::int64_t begin = offset_bytes; begin < end;) {
    std::int64_t stripe = begin / stripe_bytes_;
    const StripePlace place = map_.place(stripe);
    // A directory's stripes follow each other in its file: neighbours in it are one transfer.
    do {
      ++stripe;
    } while (stripe * stripe_bytes_ < end && map_.place(stripe).directory == place.directory);
    const std::int64_t part_bytes = std::min(stripe * stripe_bytes_, end) - begin;
    transfer(*at(place.directory).storage, offset_in_file(place, begin),
             span.sub(begin - offset_bytes, part_bytes));
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
  StripeMap map = deal_stripes(options);
  std::vector<Volume::Directory> directories;
  for (std::size_t i = 0; i < options.directories.size(); ++i) {
    const std::int64_t bytes =
        options.metadata_bytes + map.shares()[i].stripes * options.stripe_bytes;
    VolumeFile file(options.directories[i].path, options.file_name, bytes);
    auto storage = open_engine_storage(file.file(), bytes, options.engine, tracer);
    directories.push_back({std::move(file), std::move(storage)});
  }
  return std::unique_ptr<Volume>(new Volume(options, std::move(map), std::move(directories)));
}

}  // namespace strata::io
