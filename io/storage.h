// Storage: one rank's preallocated space on NVMe, read and written directly (no page cache).
//
// Vocabulary: a *request* is one transfer between an AlignedSpan and a byte range of the storage;
// an *IoGroup* counts requests so that somebody can wait for all of them. Requests complete in any
// order; two that overlap and are not ordered by a wait() are a programmer error.
//
// What is guaranteed: every completion's result is checked; short transfers are continued; EINTR
// and EAGAIN retried; a failed request fails its group, whose wait() throws an IoError naming
// operation, path, offset, bytes and errno; a request that does not complete within the timeout is
// such a failure, naming its age. Nothing is retried silently after a real error.
//
// Offsets and lengths are multiples of alignment_bytes(). Requests of any length are split here.
// Submitting blocks while all slots are in flight (bounded) and allocates nothing.
// Thread-safe; one IoGroup belongs to one waiting thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/trace.h"

namespace strata::io {

//   idle ──add──▶ pending(n) ──complete × n──▶ idle        (a failure is kept until wait() throws
//   it)
//
// A group may report to another, its parent: requests are counted, and a failure is kept, in both.
class IoGroup {
 public:
  IoGroup() = default;
  IoGroup(const IoGroup&) = delete;
  IoGroup& operator=(const IoGroup&) = delete;
  ~IoGroup();  // waits for what is pending; a failure nobody waited for is dropped

  // From here on; before any request, and once. The parent must outlive what is pending here.
  void report_to(IoGroup& parent);
  bool reports_to(const IoGroup& parent) const { return parent_ == &parent; }

  // Blocks until nothing is pending; throws the first failure and forgets it.
  void wait();
  bool pending() const;

  // For Storage implementations.
  void add(int requests = 1);
  void complete(std::exception_ptr failure);

 private:
  void wait_idle(std::unique_lock<std::mutex>& lock);
  IoGroup* parent_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t pending_ = 0;
  std::exception_ptr failure_;
};

struct StorageTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;

  StorageTraffic& operator+=(const StorageTraffic& more) {
    read_bytes += more.read_bytes;
    written_bytes += more.written_bytes;
    return *this;
  }
  StorageTraffic& operator-=(const StorageTraffic& less) {
    read_bytes -= less.read_bytes;
    written_bytes -= less.written_bytes;
    return *this;
  }
};

class Storage {
 public:
  virtual ~Storage() = default;

  virtual void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) = 0;
  virtual void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) = 0;
  // Makes durable what was written by requests that have completed.
  virtual void flush(IoGroup& group) = 0;

  // A hint: transfers will lie in this memory, until the same span is unregistered or the storage
  // ends. Memory that is given back registered stays locked, and transfers in what comes to lie at
  // its address would go astray. Not while requests are in flight.
  virtual void register_memory(AlignedSpan /*memory*/) {}
  virtual void unregister_memory(AlignedSpan /*memory*/) {}

  virtual std::int64_t capacity_bytes() const = 0;
  virtual std::int64_t alignment_bytes() const = 0;
  virtual std::string description() const = 0;  // for people: engine, path, depth

  // The drives, or whatever stands for one, that the storage is spread over.
  virtual int devices() const { return 1; }
  // The directory or file of a device: for errors, reports and the ledger.
  virtual std::string device_path(int device) const = 0;
  // Where a byte of the storage lies, for errors: "FILE at offset 4096".
  virtual std::string locate(std::int64_t offset_bytes) const;
  // Bytes of completed requests since construction, of a device or of all.
  virtual StorageTraffic device_traffic(int device) const = 0;
  StorageTraffic traffic() const;
};

}  // namespace strata::io
