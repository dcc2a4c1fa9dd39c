#include "io/volume.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "io/check_request.h"
#include "io/directory_locks.h"
#include "io/engine_storage.h"
#include "io/store_file.h"
#include "io/volume_dealing.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

// One directory's part. The file is closed after its engine has ended.
struct Device {
  StoreFile file;
  std::unique_ptr<EngineStorage> storage;
};

Device open_device(const VolumeOptions& options, const std::string& directory, std::int64_t bytes,
                   Tracer* tracer) {
  StoreFile store_file(directory, options.file_name, bytes);
  const DirectFile& file = store_file.file();
  auto engine = make_engine(options.engine.kind, file.descriptor(), file.path(),
                            options.queue_depth, options.timeout);
  EngineStorageOptions storage_options{.path = file.path(),
                                       .capacity_bytes = bytes,
                                       .alignment_bytes = file.alignment_bytes(),
                                       .request_bytes_max = options.request_bytes_max,
                                       .queue_depth = options.queue_depth,
                                       .timeout = options.timeout};
  auto storage =
      std::make_unique<EngineStorage>(std::move(storage_options), std::move(engine), tracer);
  return {std::move(store_file), std::move(storage)};
}

class StripedVolume final : public Volume {
 public:
  StripedVolume(const VolumeOptions& options, StripeMap map, std::vector<Device> devices)
      : capacity_bytes_(options.capacity_bytes),
        metadata_bytes_(options.metadata_bytes),
        stripe_bytes_(options.stripe_bytes),
        map_(std::move(map)),
        devices_(std::move(devices)) {
    for (const Device& device : devices_) {
      alignment_bytes_ = std::max(alignment_bytes_, device.storage->alignment_bytes());
    }
    capacity_bytes_ = round_up(capacity_bytes_, alignment_bytes_);
  }

  void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) override {
    check_request(*this, offset_bytes, destination);
    split(offset_bytes, destination,
          [&](EngineStorage& storage, std::int64_t at, AlignedSpan part) {
            storage.read(at, part, group);
          });
  }

  void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) override {
    check_request(*this, offset_bytes, source);
    split(offset_bytes, source, [&](EngineStorage& storage, std::int64_t at, AlignedSpan part) {
      storage.write(at, part, group);
    });
  }

  void flush(IoGroup& group) override {
    for (const Device& device : devices_) device.storage->flush(group);
  }

  void register_memory(AlignedSpan memory) override {
    for (const Device& device : devices_) device.storage->register_memory(memory);
  }
  void unregister_memory(AlignedSpan memory) override {
    for (const Device& device : devices_) device.storage->unregister_memory(memory);
  }

  std::int64_t capacity_bytes() const override { return capacity_bytes_; }
  std::int64_t alignment_bytes() const override { return alignment_bytes_; }
  std::string description() const override;

  int devices() const override { return static_cast<int>(devices_.size()); }
  std::string device_path(int device) const override { return at(device).file.file().directory(); }
  std::string locate(std::int64_t offset_bytes) const override {
    const StripePlace place = map_.place(offset_bytes / stripe_bytes_);
    return at(place.directory).storage->locate(offset_in_file(place, offset_bytes));
  }
  StorageTraffic device_traffic(int device) const override {
    return at(device).storage->device_traffic(0);
  }

  Storage& file(int device) override { return *at(device).storage; }
  std::int64_t metadata_bytes() const override { return metadata_bytes_; }
  std::int64_t stripe_bytes() const override { return stripe_bytes_; }
  StripeShare share(int device) const override {
    return map_.shares()[static_cast<std::size_t>(device)];
  }
  void keep() noexcept override {
    for (Device& device : devices_) device.file.keep();
  }

 private:
  const Device& at(int device) const { return devices_[static_cast<std::size_t>(device)]; }

  // Of the byte of the data at `offset_bytes`, in a stripe that lies at `place`.
  std::int64_t offset_in_file(const StripePlace& place, std::int64_t offset_bytes) const {
    return metadata_bytes_ + place.index * stripe_bytes_ + offset_bytes % stripe_bytes_;
  }

  // Calls transfer(storage, offset in the file, part) for each run of `span` that lies in one piece
  // in one file.
  template <typename TransferPart>
  void split(std::int64_t offset_bytes, AlignedSpan span, TransferPart transfer);

  std::int64_t capacity_bytes_;
  std::int64_t metadata_bytes_;
  std::int64_t stripe_bytes_;
  std::int64_t alignment_bytes_ = 1;
  StripeMap map_;
  std::vector<Device> devices_;
};

template <typename TransferPart>
void StripedVolume::split(std::int64_t offset_bytes, AlignedSpan span, TransferPart transfer) {
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

// "1.5 GiB in /a (67 %), /b (33 %); io_uring, 64 in flight, registered file"
std::string StripedVolume::description() const {
  std::string directories;
  for (int d = 0; d < devices(); ++d) {
    if (d > 0) directories += ", ";
    directories += device_path(d);
    if (devices() > 1) {
      directories += fmt::format(" ({:.0f} %)", 100 * static_cast<double>(share(d).stripes) /
                                                    static_cast<double>(map_.stripes()));
    }
  }
  return fmt::format("{} in {}; {}", format_bytes(capacity_bytes_), directories,
                     at(0).storage->description());
}

}  // namespace

std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer) {
  STRATA_CHECK(!options.directories.empty() && options.capacity_bytes > 0);
  STRATA_CHECK(options.metadata_bytes >= 0 && options.metadata_bytes % kPageBytes == 0);
  STRATA_CHECK(options.stripe_bytes > 0 && options.stripe_bytes % kPageBytes == 0);
  const DirectoryLocks locks(paths_of(options.directories), options.timeout);
  StripeMap map = deal_stripes(options);
  std::vector<Device> devices;
  for (std::size_t i = 0; i < options.directories.size(); ++i) {
    const std::int64_t bytes =
        options.metadata_bytes + map.shares()[i].stripes * options.stripe_bytes;
    devices.push_back(open_device(options, options.directories[i].path, bytes, tracer));
  }
  return std::make_unique<StripedVolume>(options, std::move(map), std::move(devices));
}

}  // namespace strata::io
