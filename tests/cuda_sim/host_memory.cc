#include "cuda_sim/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_sim/memory.h"
#include "cuda_sim/report.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::cuda_sim {
namespace {

std::mutex ranges_mutex;
std::map<std::uintptr_t, std::int64_t> ranges;  // bytes by address

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// The range that holds `address`, or the next one.
std::map<std::uintptr_t, std::int64_t>::iterator at_or_after(std::uintptr_t address) {
  auto range = ranges.upper_bound(address);
  if (range != ranges.begin()) {
    const auto before = std::prev(range);
    if (address < before->first + static_cast<std::uintptr_t>(before->second)) range = before;
  }
  return range;
}

bool is_mapped(std::uintptr_t address, std::int64_t bytes) {
  const std::uintptr_t begin = address / kPageBytes * kPageBytes;
  const auto pages =
      round_up(static_cast<std::int64_t>(address - begin) + bytes, kPageBytes) / kPageBytes;
  std::vector<unsigned char> resident(static_cast<std::size_t>(pages));
  return ::mincore(reinterpret_cast<void*>(begin), static_cast<std::size_t>(pages * kPageBytes),
                   resident.data()) == 0;
}

}  // namespace

cudaError_t register_host(const void* address, std::int64_t bytes) {
  if (address == nullptr || bytes <= 0 || is_device_address(address)) return cudaErrorInvalidValue;
  if (!is_mapped(number(address), bytes)) return cudaErrorInvalidValue;
  const std::lock_guard lock(ranges_mutex);
  const auto range = at_or_after(number(address));
  if (range != ranges.end() &&
      range->first < number(address) + static_cast<std::uintptr_t>(bytes)) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  ranges[number(address)] = bytes;
  return cudaSuccess;
}

cudaError_t unregister_host(const void* address) {
  const std::lock_guard lock(ranges_mutex);
  const auto range = ranges.find(number(address));
  if (range == ranges.end()) return cudaErrorHostMemoryNotRegistered;
  if (!is_mapped(range->first, range->second)) {
    report("{} bytes of host memory at {} are unregistered after they were unmapped", range->second,
           address);
  }
  ranges.erase(range);
  return cudaSuccess;
}

void require_registered(const void* address, std::int64_t bytes) {
  const std::lock_guard lock(ranges_mutex);
  const auto range = at_or_after(number(address));
  if (range == ranges.end() || range->first > number(address) ||
      number(address) + static_cast<std::uintptr_t>(bytes) >
          range->first + static_cast<std::uintptr_t>(range->second)) {
    report(
        "asynchronous copy of {} bytes of host memory at {} that is not registered: the "
        "hardware would wait for it",
        bytes, address);
  }
}

}  // namespace strata::cuda_sim
