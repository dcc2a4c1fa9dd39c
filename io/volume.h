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
//   create_volume() ──▶ created ──publish()──▶ published ──keep()──▶ kept ──remove()──▶ removed
//                          └──keep()──▶ to be kept ──publish()──▶ kept ◀── open_volume()
//   (destroyed before it is kept: nothing is left)
//
// Thread contract: what Storage has, from any thread (storage.h); the rest from one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/engine_choice.h"
#include "io/storage.h"
#include "io/stripe_map.h"
#include "io/volume_directories.h"
#include "io/volume_file.h"
#include "kernels/base/trace.h"

namespace strata::io {

class EngineStorage;

struct VolumeOptions {
  std::vector<VolumeDirectory> directories;
  std::string file_name;            // the same in each directory; empty: files without a name
  std::int64_t capacity_bytes = 0;  // of the data
  std::int64_t metadata_bytes = 0;  // of each file, a multiple of 4,096
  std::int64_t stripe_bytes = 1 << 20;
  EngineOptions engine;  // of each directory
};

// The files of a volume that was made earlier, as their metadata describes them.
struct VolumeFiles {
  std::vector<std::string> paths;   // of each directory, in the order of the shares
  std::vector<StripeShare> shares;  // of all stripes of the data
  std::int64_t capacity_bytes = 0;
  std::int64_t metadata_bytes = 0;
  std::int64_t stripe_bytes = 0;
  EngineOptions engine;

  std::int64_t file_bytes(std::size_t directory) const {
    return metadata_bytes + shares[directory].stripes * stripe_bytes;
  }
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
  // Leaves the files where they are when the volume ends, from their publication on.
  void keep() noexcept;

  // Turns its exclusive lock into a shared one, so that others may read it. Throws ConfigError when
  // another process has taken it meanwhile, IoError.
  void share_lock();
  // Gives the blocks of a range of the data back to the file systems that can take them: what is
  // read there then is zeros, or what was written. Throws IoError.
  void discard(std::int64_t offset_bytes, std::int64_t bytes);
  // Takes blocks for all that was discarded, so that no later write meets a full disk; what was
  // written stays. Throws as create_volume() does.
  void reserve();
  // Deletes the files; the volume can still be used. Throws IoError.
  void remove();

 private:
  struct Directory;
  friend std::unique_ptr<Volume> create_volume(const VolumeOptions&, Tracer*);
  friend std::unique_ptr<Volume> open_volume(const VolumeFiles&, VolumeAccess, Tracer*);
  friend std::unique_ptr<Volume> volume_over(std::vector<std::unique_ptr<EngineStorage>>,
                                             const VolumeFiles&);

  Volume(const VolumeFiles& files, std::vector<Directory> directories);

  static Directory start_directory(VolumeFile file, const VolumeFiles& files, std::size_t d,
                                   Tracer* tracer);
  const Directory& at(int device) const;
  // Of the byte of the data at `offset_bytes`, in a stripe that lies at `place`.
  std::int64_t offset_in_file(const StripePlace& place, std::int64_t offset_bytes) const;
  // Calls part(directory, offset in its file, begin, bytes) for each run of the data that lies in
  // one piece in one file; `begin` counts from offset_bytes.
  template <typename Part>
  void split(std::int64_t offset_bytes, std::int64_t bytes, Part part);

  std::int64_t capacity_bytes_;
  std::int64_t metadata_bytes_;
  std::int64_t stripe_bytes_;
  std::int64_t alignment_bytes_ = 1;
  StripeMap map_;
  bool published_ = false;
  bool kept_ = false;
  std::vector<Directory> directories_;
};

// Waits while another process makes one in one of its directories, for the engine's timeout and as
// long as many ranks may measure drives: each sees what the other has left. Throws ConfigError when
// a directory is missing, not a directory, read-only or not writable, or when together they have
// less free space than the volume needs (with bytes needed and free per directory); IoError when
// the system refuses something else. `tracer` may be null.
std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer);

// Opens and locks files that are there; they stay when the volume ends. Waits a second at most for
// processes that only look at them. Throws ConfigError when one has them locked (exclusive: also to
// read them), IoError when a file cannot be opened or is shorter than it says.
std::unique_ptr<Volume> open_volume(const VolumeFiles& files, VolumeAccess access, Tracer* tracer);

// Over storages in the place of the files, which have neither names nor locks then; for tests of
// what survives a crash (crash_disk.h) or a fault. `files`: paths and engine are not used.
std::unique_ptr<Volume> volume_over(std::vector<std::unique_ptr<EngineStorage>> storages,
                                    const VolumeFiles& files);

}  // namespace strata::io
