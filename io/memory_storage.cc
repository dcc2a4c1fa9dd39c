// A Storage in memory: a request is a copy, complete when the call returns.
#include <atomic>
#include <cstring>
#include <memory>

#include "io/check_request.h"
#include "io/fault_storage.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

class MemoryStorage final : public Storage {
 public:
  explicit MemoryStorage(std::int64_t capacity_bytes)
      : capacity_bytes_(round_up(capacity_bytes, kPageBytes)),
        memory_(std::make_unique<std::byte[]>(static_cast<std::size_t>(capacity_bytes_))) {}

  void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) override {
    check_request(*this, offset_bytes, destination);
    if (destination.bytes() == 0) return;
    group.add();
    std::memcpy(destination.data(), memory_.get() + offset_bytes, size_of(destination));
    read_bytes_.fetch_add(destination.bytes(), std::memory_order_relaxed);
    group.complete(nullptr);
  }

  void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) override {
    check_request(*this, offset_bytes, source);
    if (source.bytes() == 0) return;
    group.add();
    std::memcpy(memory_.get() + offset_bytes, source.data(), size_of(source));
    written_bytes_.fetch_add(source.bytes(), std::memory_order_relaxed);
    group.complete(nullptr);
  }

  void flush(IoGroup& group) override {
    group.add();
    group.complete(nullptr);
  }

  std::int64_t capacity_bytes() const override { return capacity_bytes_; }
  std::int64_t alignment_bytes() const override {
    return kPageBytes;
  }  // the strictest of any drive
  std::string description() const override {
    return fmt::format("memory, {}", format_bytes(capacity_bytes_));
  }
  std::string device_path(int /*device*/) const override { return description(); }
  StorageTraffic device_traffic(int /*device*/) const override {
    return {read_bytes_.load(std::memory_order_relaxed),
            written_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  static std::size_t size_of(AlignedSpan span) { return static_cast<std::size_t>(span.bytes()); }

  std::int64_t capacity_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::atomic<std::int64_t> read_bytes_{0};
  std::atomic<std::int64_t> written_bytes_{0};
};

}  // namespace

std::unique_ptr<Storage> make_memory_storage(std::int64_t capacity_bytes) {
  return std::make_unique<MemoryStorage>(capacity_bytes);
}

}  // namespace strata::io
