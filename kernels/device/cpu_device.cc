#include "kernels/device/cpu_device.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/page_memory.h"

namespace strata {

CpuDevice::CpuDevice(const CpuDeviceOptions& options, Budget& host_budget, WorkerSet& workers,
                     FailureLatch& failure, Tracer* tracer)
    : Device(options.device_memory_bytes, host_budget),
      options_(options),
      workers_(workers),
      failure_(failure),
      tracer_(tracer) {
  if (options.device_memory_bytes == 0) return;
  arena_ = map_pages("device memory", round_up(options.device_memory_bytes, kPageBytes));
  holes_.push_back({0, options.device_memory_bytes});
}

CpuDevice::~CpuDevice() {
  release_op_state();
  STRATA_CHECK(device_budget().held_bytes() == 0, "device buffers outlive their device");
  unmap_pages(arena_, round_up(options_.device_memory_bytes, kPageBytes));
}

std::string CpuDevice::description() const {
  return fmt::format("cpu, {} thread{}", workers_.threads(), workers_.threads() == 1 ? "" : "s");
}

PinnedBuffer CpuDevice::allocate_pinned(std::string tag, std::int64_t bytes) {
  return make_pinned(AlignedBuffer(host_budget(), std::move(tag), bytes));
}

std::unique_ptr<Stream> CpuDevice::make_stream(std::string name) {
  return std::make_unique<CpuStream>(*this, std::move(name));
}

std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(failure_); }

// First fit: everything is allocated once, at start, so holes are rare. Pages are touched here, so
// that the step loop meets none for the first time.
std::byte* CpuDevice::arena_allocate(std::int64_t bytes) {
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto hole = std::ranges::find_if(
        holes_, [&](const Hole& candidate) { return candidate.bytes >= bytes; });
    if (hole == holes_.end()) {
      throw_error<OutOfBudget>(
          "device memory: {} are free, but not in one piece; raise --device-memory",
          format_bytes(bytes));
    }
    data = arena_ + hole->offset_bytes;
    hole->offset_bytes += bytes;
    hole->bytes -= bytes;
    if (hole->bytes == 0) holes_.erase(hole);
  }
  try {
    populate_pages("device memory", data, bytes);
  } catch (...) {
    arena_free(data, bytes);
    throw;
  }
  return data;
}

void CpuDevice::arena_free(std::byte* data, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const Hole freed{data - arena_, bytes};
  const auto after = std::ranges::upper_bound(holes_, freed.offset_bytes, {}, &Hole::offset_bytes);
  auto hole = holes_.insert(after, freed);
  if (const auto next = std::next(hole);
      next != holes_.end() && hole->offset_bytes + hole->bytes == next->offset_bytes) {
    hole->bytes += next->bytes;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  if (const auto previous = std::prev(hole);
      previous->offset_bytes + previous->bytes == hole->offset_bytes) {
    previous->bytes += hole->bytes;
    holes_.erase(hole);
  }
}

}  // namespace strata
