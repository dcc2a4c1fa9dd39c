#include "cuda_sim/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda_sim/fiber.h"
#include "cuda_sim/report.h"
#include "kernels/base/bytes.h"

namespace strata::cuda_sim {
namespace {

constexpr std::int64_t kSlabBytes = std::int64_t{2} << 20;  // allocations begin at multiples
constexpr std::int64_t kFreshBytes = std::int64_t{16} << 20;
constexpr int kFresh = 0xFF;
constexpr std::int64_t kGranule = kGranuleBytes;

void* device_address(std::int64_t offset) { return reinterpret_cast<void*>(kBase + offset); }
void* bytes_address(std::int64_t offset) {
  return reinterpret_cast<void*>(kBase + kBytesOffset + offset);
}
std::int64_t offset_of(const void* address) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) - kBase);
}

void map_at(void* address, std::int64_t bytes, int protection, int flags, int file) {
  void* const got = ::mmap(address, bytes, protection, flags | MAP_PRIVATE, file, 0);
  if (got != address) report("mmap of the simulated device's memory: {}", std::strerror(errno));
}

// Which of [begin, begin + bytes) may be accessed: all of it, or none.
void mark(std::int64_t begin, std::int64_t bytes, bool live) {
  for (std::int64_t at = begin; at < begin + bytes; at += kGranule) {
    const auto here = std::min(kGranule, begin + bytes - at);
    granules()[at / kGranule].store(live ? here : 0, std::memory_order_relaxed);
  }
}

struct sigaction outer_handler;

void on_fault(int signal, siginfo_t* info, void*) {
  if (is_device_address(info->si_addr)) {
    report(
        "host access to device memory at {}: device addresses are read and written by kernels "
        "through load() and store(), and by copies",
        info->si_addr);
  }
  if (is_stack_guard(info->si_addr)) {
    report("the stack of a simulated thread is full: {} bytes", kFiberStackBytes);
  }
  ::sigaction(signal, &outer_handler, nullptr);  // the access is made again
}

class Memory {
 public:
  Memory() {
    map_at(device_address(0), kSpanBytes * 2, PROT_NONE, kReserve, -1);
    map_at(granules(), kSpanBytes / kGranuleBytes * sizeof(Granule), PROT_READ | PROT_WRITE,
           kReserve, -1);
    struct sigaction handler = {};
    handler.sa_sigaction = &on_fault;
    handler.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(SIGSEGV, &handler, &outer_handler);
  }

  void* allocate(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > free_bytes_locked()) return nullptr;
    const Allocation allocation = {bytes, false, {}};
    const std::int64_t addresses = allocation.addresses();
    const std::int64_t begin = find_room(addresses);
    const int fresh = fresh_file();
    for (std::int64_t at = 0; at < addresses; at += kFreshBytes) {
      map_at(bytes_address(begin + at), std::min(kFreshBytes, addresses - at),
             PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE, fresh);
    }
    mark(begin, bytes, true);
    allocations_[begin] = allocation;
    next_ = begin + addresses;
    held_bytes_ += bytes;
    return device_address(begin);
  }

  bool free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(offset_of(address));
    if (found == allocations_.end()) return false;
    const auto& [begin, allocation] = *found;
    mark(begin, allocation.bytes, false);
    for (const auto& [piece, bytes] : allocation.pieces) mark(piece, bytes, false);
    map_at(bytes_address(begin), allocation.addresses(), PROT_NONE,
           MAP_FIXED | MAP_NORESERVE | MAP_ANONYMOUS, -1);
    held_bytes_ -= allocation.bytes;
    allocations_.erase(found);
    return true;
  }

  std::int64_t free_bytes() {
    const std::lock_guard lock(mutex_);
    return free_bytes_locked();
  }

  void* place_piece(std::int64_t begin, std::int64_t offset, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(begin);
    if (found == allocations_.end() || bytes <= 0 || offset % kGranule != 0 ||
        offset + bytes > found->second.bytes) {
      report("{} bytes at {} of {} are not a piece of an allocation", bytes, offset,
             device_address(begin));
    }
    Allocation& allocation = found->second;
    if (!allocation.in_pieces) mark(begin, allocation.bytes, false);
    allocation.in_pieces = true;
    const std::int64_t piece = begin + 2 * offset;
    mark(piece, bytes, true);
    allocation.pieces[piece] = bytes;
    return device_address(piece);
  }

  std::int64_t take_back_piece(std::int64_t begin, std::int64_t piece, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& pieces = allocations_[begin].pieces;
    const auto found = pieces.find(piece);
    if (found == pieces.end() || found->second != bytes) {
      report("{} bytes at {} are given back, and were not handed out", bytes,
             device_address(piece));
    }
    pieces.erase(found);
    mark(piece, bytes, false);
    std::memset(bytes_address(piece), kFresh, bytes);
    return (piece - begin) / 2;
  }

  // Of a device address, for reports.
  std::string describe(std::int64_t offset) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return "device memory";
    const auto after = allocations_.upper_bound(offset);
    if (after == allocations_.begin()) return "device memory that was never allocated";
    const auto& [begin, allocation] = *std::prev(after);
    if (!allocation.in_pieces) return describe(offset, begin, allocation.bytes, "an allocation");
    const auto piece_after = allocation.pieces.upper_bound(offset);
    if (piece_after == allocation.pieces.begin()) return "device memory that is not handed out";
    return describe(offset, std::prev(piece_after)->first, std::prev(piece_after)->second,
                    "a buffer");
  }

 private:
  static constexpr int kReserve = MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_ANONYMOUS;

  struct Allocation {
    std::int64_t bytes;
    bool in_pieces;
    std::map<std::int64_t, std::int64_t> pieces;  // bytes by offset of the first
    std::int64_t addresses() const { return 2 * round_up(bytes, kSlabBytes); }
  };

  static std::string describe(std::int64_t offset, std::int64_t begin, std::int64_t bytes,
                              const char* what) {
    return fmt::format("byte {} of {} of {} bytes{}", offset - begin, what, bytes,
                       offset - begin < bytes ? "" : ", freed or never handed out there");
  }

  std::int64_t free_bytes_locked() const { return kTotalBytes - kContextBytes - held_bytes_; }

  // Behind the last allocation, so that addresses of freed memory come back late.
  std::int64_t find_room(std::int64_t bytes) const {
    std::int64_t begin = next_ + bytes <= static_cast<std::int64_t>(kSpanBytes) ? next_ : 0;
    for (const auto& [other, allocation] : allocations_) {
      const std::int64_t other_end = other + allocation.addresses();
      if (begin < other_end && other < begin + bytes) begin = other_end;
    }
    if (begin + bytes > static_cast<std::int64_t>(kSpanBytes)) report("no addresses are left");
    return begin;
  }

  // Mapped copy-on-write, so that memory which is never touched costs nothing.
  static int fresh_file() {
    static const int file = [] {
      const int made = ::memfd_create("fresh device memory", MFD_CLOEXEC);
      const std::string pattern(kFreshBytes, static_cast<char>(kFresh));
      if (::write(made, pattern.data(), pattern.size()) != kFreshBytes) {
        report("memfd of {} bytes: {}", kFreshBytes, std::strerror(errno));
      }
      return made;
    }();
    return file;
  }

  std::mutex mutex_;
  std::map<std::int64_t, Allocation> allocations_;  // by offset
  std::int64_t next_ = 0;
  std::int64_t held_bytes_ = 0;
};

Memory& memory() {
  static Memory* const instance = new Memory;  // outlives every thread
  return *instance;
}
const Memory& mapped_at_start = memory();

}  // namespace

void refuse_access(const void* address, std::uintptr_t bytes, Access access) {
  const char* const verb = access == Access::read ? "read" : "write";
  if (!is_device_address(address)) {
    report("{} of {} bytes at {}: not a device address", verb, bytes, address);
  }
  if (bytes <= kGranuleBytes && reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    report("misaligned {} of {} bytes at {}", verb, bytes, address);
  }
  report("{} of {} bytes at {}: {}", verb, bytes, address, memory().describe(offset_of(address)));
}

void* checked_range(const void* address, std::int64_t bytes, Access access) {
  const std::int64_t begin = offset_of(address);
  const std::int64_t end = begin + bytes;
  if (!is_device_address(address) || bytes < 0 || end > static_cast<std::int64_t>(kSpanBytes)) {
    refuse_access(address, bytes, access);
  }
  for (std::int64_t at = begin; at < end; at = round_up(at + 1, kGranule)) {
    const std::int64_t granule = at / kGranule;
    const std::int64_t live_end =
        granule * kGranule + granules()[granule].load(std::memory_order_relaxed);
    if (live_end < std::min(end, (granule + 1) * kGranule)) {
      const std::int64_t bad = std::max(at, live_end);
      report("{} of {} bytes at {}, at {}: {}", access == Access::read ? "read" : "write", bytes,
             address, device_address(bad), memory().describe(bad));
    }
  }
  return bytes_address(begin);
}

void* allocate(std::int64_t bytes) { return memory().allocate(bytes); }
bool free(void* address) { return memory().free(address); }
std::int64_t free_bytes() { return memory().free_bytes(); }
void* place_piece(void* allocation, std::int64_t offset_bytes, std::int64_t bytes) {
  return memory().place_piece(offset_of(allocation), offset_bytes, bytes);
}
std::int64_t take_back_piece(void* allocation, void* piece, std::int64_t bytes) {
  return memory().take_back_piece(offset_of(allocation), offset_of(piece), bytes);
}

}  // namespace strata::cuda_sim
