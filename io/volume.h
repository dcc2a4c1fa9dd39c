// Volume: one rank's space for state on NVMe, striped over files in one or several directories.
//
// In each directory it has one file, preallocated, opened O_DIRECT and locked while the volume
// lives, which publish() gives its name (volume_file.h); or one that never has a name and is gone
// however the process ends. A file begins with `metadata_bytes` that belong to whoever describes
// the volume (offload/store) and are written before it is published; behind them lie this
// directory's stripes. The Storage interface is the striped data; file(d) is the whole file of a
// directory, metadata included.
//
// Stripes are dealt to directories in proportion to their bandwidth as long as they have room
// (stripe_map.h), each through an engine of its own, so that the sum of the bandwidths is used.
//
//   created ──publish()──▶ published ──keep()──▶ kept   (destroyed before keep(): nothing is left)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/engine_choice.h"
#include "io/storage.h"
#include "io/stripe_map.h"
#include "io/volume_directories.h"
#include "kernels/base/trace.h"

namespace strata::io {

struct VolumeOptions {
  std::vector<VolumeDirectory> directories;
  std::string file_name;            // the same in each directory; empty: files without a name
  std::int64_t capacity_bytes = 0;  // of the data
  std::int64_t metadata_bytes = 0;  // of each file, a multiple of 4,096
  std::int64_t stripe_bytes = 1 << 20;
  EngineOptions engine;  // of each directory
};

class Volume final : public Storage {
 public:
  ~Volume() override;

  void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) override;
  void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) override;
  void flush(IoGroup& group) override;
  void register_memory(AlignedSpan memory) override;
  void unregister_memory(AlignedSpan memory) override;

  std::int64_t capacity_bytes() const override { return capacity_bytes_; }
  std::int64_t alignment_bytes() const override { return alignment_bytes_; }
  std::string description() const override;
  int devices() const override;
  std::string device_path(int device) const override;
  std::string locate(std::int64_t offset_bytes) const override;
  StorageTraffic device_traffic(int device) const override;

  // A whole file, metadata included. Its device_path() is the file's.
  Storage& file(int device);
  std::int64_t metadata_bytes() const { return metadata_bytes_; }
  std::int64_t stripe_bytes() const { return stripe_bytes_; }
  // How stripes were dealt, for the description of the volume in its files: enough to deal them
  // again (stripe_map.h).
  StripeShare share(int device) const;

  // Gives the files their names, once their metadata is there. Throws ConfigError when a file has
  // taken one meanwhile, IoError.
  void publish();
  // Leaves the published files where they are when the volume ends.
  void keep() noexcept;

 private:
  struct Directory;
  friend std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer);

  Volume(const VolumeOptions& options, StripeMap map, std::vector<Directory> directories);

  const Directory& at(int device) const;
  // Of the byte of the data at `offset_bytes`, in a stripe that lies at `place`.
  std::int64_t offset_in_file(const StripePlace& place, std::int64_t offset_bytes) const;
  // Calls transfer(storage, offset in the file, part) for each run of `span` that lies in one piece
  // in one file.
  template <typename TransferPart>
  void split(std::int64_t offset_bytes, AlignedSpan span, TransferPart transfer);

  std::int64_t capacity_bytes_;
  std::int64_t metadata_bytes_;
  std::int64_t stripe_bytes_;
  std::int64_t alignment_bytes_ = 1;
  StripeMap map_;
  std::vector<Directory> directories_;
};

// Waits while another process makes one in one of its directories, for the engine's timeout and as
// long as many ranks may measure drives: each sees what the other has left. Throws ConfigError when
// a directory is missing, not a directory, read-only or not writable, or when together they have
// less free space than the volume needs (with bytes needed and free per directory); IoError when
// the system refuses something else. `tracer` may be null.
std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer);

// The files of a volume that was made earlier, as their metadata describes them.
struct VolumeFiles {
  std::vector<std::string> paths;  // of each directory, in the order of the shares
  std::vector<StripeShare> shares;
  std::int64_t capacity_bytes = 0;
  std::int64_t metadata_bytes = 0;
  std::int64_t stripe_bytes = 0;
  EngineOptions engine;
};

// exclusive: to go on in it; shared: to read it, as others may at the same time.
enum class VolumeAccess : std::uint8_t { shared, exclusive };

// Opens and locks them; they stay when the volume ends. Throws ConfigError when a process has one
// locked (exclusive: also to read it), IoError when one cannot be opened or is shorter than it
// says.
std::unique_ptr<Volume> open_volume(const VolumeFiles& files, VolumeAccess access, Tracer* tracer);

}  // namespace strata::io
