// CrashDisk: drives in memory that lose their power at a chosen operation, and what is left on them
// then. For tests of whatever promises to survive a crash; not for production use.
//
// It has one file or several. An *operation* is a write or a flush of any of them as an engine sees
// it; operations are numbered from 0 in the order of submission. Operation `crash_at`, everything
// after it, and reads after it, are refused: nothing reaches the drives any more.
//
//   write:  submitted ──answered──▶ cached ──flush, submitted after the answer──▶ durable
//
// A crash leaves what is durable; of each cached write all, nothing, or any of its sectors, as a
// seed decides; and nothing of a write without an answer. Sectors are pages, of a write of one page
// 512 bytes.
//
// Below EngineStorage, on FaultEngines: delays of their rules reorder, and errors are errors.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "io/engine_storage.h"
#include "io/fault_rules.h"

namespace strata::io {

struct CrashRules {
  std::int64_t crash_at = -1;  // operation; -1: never
  FaultRules faults;           // of each file; none that are silent
};

class CrashDisk {
 public:
  using Image = std::vector<std::byte>;  // of a file, in whole pages

  explicit CrashDisk(std::vector<Image> images, const CrashRules& rules = {});
  ~CrashDisk();

  // One for each file; once. The disk outlives them.
  std::vector<std::unique_ptr<EngineStorage>> open();

  std::int64_t operations() const;  // that were not refused
  bool has_crashed() const;

  // Of each file, if the power goes now, or went when the disk crashed.
  std::vector<Image> after_crash(std::uint64_t seed) const;

 private:
  struct CachedWrite {
    std::int64_t offset_bytes;
    std::vector<std::byte> bytes;
  };
  struct File;
  class FileEngine;

  static void keep_some(const CachedWrite& write, std::uint64_t seed, Image& image);

  // Under the lock.
  bool admit(Operation operation);

  const CrashRules rules_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<File>> files_;
  std::int64_t operations_ = 0;
  bool has_crashed_ = false;
};

}  // namespace strata::io
