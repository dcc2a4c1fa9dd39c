// CrashDisk: drives in memory that may lose their power at a chosen operation, and remember what
// happened to them, so that what any other moment would have left can be had too. For tests of
// whatever promises to survive a crash; not for production use.
//
// It has one file or several. An *operation* is a write or a flush of any of them as an engine sees
// it; operations are numbered from 0 in the order of submission. Operation `crash_at`, everything
// after it, and reads after it, are refused: nothing reaches the drives any more. drive_history.h
// says what is left of the others.
//
// Below EngineStorage, on FaultEngines: delays of their rules reorder, and errors are errors.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "io/drive_history.h"
#include "io/engine_storage.h"
#include "io/fault_rules.h"

namespace strata::io {

struct CrashRules {
  std::int64_t crash_at = -1;  // operation; -1: never
  FaultRules faults;           // of each file; none that are silent
};

class CrashDisk {
 public:
  using Image = DriveHistory::Image;

  explicit CrashDisk(std::vector<Image> images, const CrashRules& rules = {});
  ~CrashDisk();

  // One for each file; once. The disk outlives them.
  std::vector<std::unique_ptr<EngineStorage>> open();

  std::int64_t operations() const;  // that were not refused
  bool has_crashed() const;

  // Of each file, if the power goes now, or went when the disk crashed.
  std::vector<Image> after_crash(std::uint64_t seed) const;

  std::int64_t events() const;  // of its history so far
  // While nothing is under way.
  const DriveHistory& history() const { return history_; }

 private:
  class FileEngine;

  // Under the lock.
  bool admit(Operation operation);

  const CrashRules rules_;
  mutable std::mutex mutex_;
  DriveHistory history_;
  bool has_crashed_ = false;
};

}  // namespace strata::io
