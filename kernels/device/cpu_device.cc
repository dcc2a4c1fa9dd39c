#include "kernels/device/cpu_device.h"

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
      tracer_(tracer),
      free_(options.device_memory_bytes) {
  if (options.device_memory_bytes == 0) return;
  arena_ = map_pages("device memory", round_up(options.device_memory_bytes, kPageBytes));
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

// Pages are touched here, so that the step loop meets none for the first time.
std::byte* CpuDevice::arena_allocate(std::int64_t bytes) {
  std::byte* const data = arena_ + free_.take(bytes);
  try {
    populate_pages("device memory", data, bytes);
  } catch (...) {
    arena_free(data, bytes);
    throw;
  }
  return data;
}

void CpuDevice::arena_free(std::byte* data, std::int64_t bytes) noexcept {
  free_.give_back(data - arena_, bytes);
}

}  // namespace strata
