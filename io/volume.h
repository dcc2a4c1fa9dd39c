// Volume: one rank's space for state on NVMe, striped over files in one or several directories.
//
// In each directory it has one file, named, preallocated, opened O_DIRECT and locked while the
// volume lives (store_file.h); or one without a name, which is gone however the process ends. A
// file begins with `metadata_bytes` that belong to whoever describes the volume (offload/store);
// behind them lie this directory's stripes. The Storage interface is the striped data; file(d) is
// the whole file of a directory, metadata included.
//
// Stripes are dealt to directories in proportion to their bandwidth as long as they have room
// (stripe_map.h), each through an engine of its own, so that the sum of the bandwidths is used.
//
//   created ──keep()──▶ kept     (destroyed before keep(): the files are deleted)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/engine_choice.h"
#include "io/storage.h"
#include "io/stripe_map.h"
#include "kernels/base/trace.h"

namespace strata::io {

struct VolumeDirectory {
  std::string path;
  double bytes_per_second = 0;  // 0: measured where there are several directories
};

// "/a=7GB/s,/b" (--nvme). Throws ConfigError naming the part that is not understood, or a directory
// that comes twice.
std::vector<VolumeDirectory> parse_directories(std::string_view text);
std::string format_directories(const std::vector<VolumeDirectory>& directories);

struct VolumeOptions {
  std::vector<VolumeDirectory> directories;
  std::string file_name;            // the same in each directory; empty: files without a name
  std::int64_t capacity_bytes = 0;  // of the data
  std::int64_t metadata_bytes = 0;  // of each file, a multiple of 4,096
  std::int64_t stripe_bytes = 1 << 20;
  EngineChoice engine;
  int queue_depth = 64;                      // of each directory
  std::int64_t request_bytes_max = 1 << 20;  // longer requests are split into this
  std::chrono::milliseconds timeout{30000};
};

class Volume : public Storage {
 public:
  // A whole file, metadata included. Its device_path() is the file's.
  virtual Storage& file(int device) = 0;
  virtual std::int64_t metadata_bytes() const = 0;
  virtual std::int64_t stripe_bytes() const = 0;
  // How stripes were dealt, for the description of the volume in its files: enough to deal them
  // again (stripe_map.h).
  virtual StripeShare share(int device) const = 0;
  // Leaves the files where they are when the volume ends.
  virtual void keep() noexcept = 0;
};

// Waits, for `timeout` at most, while another process makes one in one of its directories: each
// sees what the other has left. Throws ConfigError when a directory is missing, not a directory,
// read-only or not writable, or when together they have less free space than the volume needs (with
// bytes needed and free per directory); IoError when the system refuses something else. `tracer`
// may be null.
std::unique_ptr<Volume> create_volume(const VolumeOptions& options, Tracer* tracer);

// The same checks without creating anything that outlives the call; returns the free bytes of each
// directory.
std::vector<std::int64_t> check_directories(const std::vector<VolumeDirectory>& directories,
                                            std::int64_t needed_bytes);

}  // namespace strata::io
