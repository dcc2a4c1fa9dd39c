#include "io/uring_engine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <thread>
#include <utility>

#include "io/uring_probe.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

constexpr std::chrono::milliseconds kSubmitPause{1};
constexpr int kRegionsMax = 1024;               // 8 bytes of kernel memory each
constexpr std::int64_t kRegionBytesMax = kGiB;  // the kernel refuses a longer one (EFAULT)

std::string reason_of_refusal(int error_number) {
  if (error_number == ENOMEM && locked_bytes_max() != std::numeric_limits<std::int64_t>::max()) {
    return "RLIMIT_MEMLOCK";
  }
  if (error_number == EINVAL) return "Linux before 5.19";
  return errno_text(error_number);
}

}  // namespace

UringEngine::UringEngine(int descriptor, std::string path, int queue_depth,
                         std::chrono::milliseconds submit_timeout)
    : path_(std::move(path)), submit_timeout_(submit_timeout), file_(descriptor) {
  const int error = -io_uring_queue_init(static_cast<unsigned>(queue_depth), &ring_, 0);
  if (error != 0) {
    throw_error<IoError>("io_uring with a queue depth of {} for {}: {}", queue_depth, path_,
                         errno_text(error));
  }
  // Without it liburing times a wait by a submission of its own, which is not thread-safe.
  STRATA_CHECK((ring_.features & IORING_FEAT_EXT_ARG) != 0, "choose_engine() refuses this kernel");
  if (io_uring_register_files(&ring_, &descriptor, 1) == 0) {
    file_ = 0;
    file_registered_ = true;
  }
}

// The ring's end is asynchronous: what is registered would stay locked for a while. But to
// unregister waits for requests in flight, which after a timeout may be for ever.
UringEngine::~UringEngine() {
  drain();
  if (in_flight_ == 0) {
    if (has_table_) io_uring_unregister_buffers(&ring_);
    if (file_registered_) io_uring_unregister_files(&ring_);
  }
  io_uring_queue_exit(&ring_);
}

std::string UringEngine::description() const {
  const std::lock_guard lock(submit_mutex_);
  std::string text = file_registered_ ? "io_uring, registered file" : "io_uring";
  if (regions_wanted_ > 0) {
    text += fmt::format(", {} of {} buffers registered", regions_.size(), regions_wanted_);
  }
  if (region_errno_ != 0) text += ": " + reason_of_refusal(region_errno_);
  return text;
}

void UringEngine::register_memory(AlignedSpan memory) {
  const std::lock_guard lock(submit_mutex_);
  for (std::int64_t begin = 0; begin < memory.bytes(); begin += kRegionBytesMax) {
    const std::int64_t bytes = std::min(kRegionBytesMax, memory.bytes() - begin);
    ++regions_wanted_;
    const int error = register_region(memory.sub(begin, bytes));
    if (region_errno_ == 0) region_errno_ = error;
  }
}

void UringEngine::unregister_memory(AlignedSpan memory) {
  const std::lock_guard lock(submit_mutex_);
  forget_regions(memory);
  regions_wanted_ -= static_cast<int>(ceil_div(memory.bytes(), kRegionBytesMax));
}

int UringEngine::register_region(AlignedSpan memory) {
  if (!has_table_) {
    const int error = -io_uring_register_buffers_sparse(&ring_, kRegionsMax);
    if (error != 0) return error;
    has_table_ = true;
    for (int place = kRegionsMax; place-- > 0;) free_places_.push_back(place);
  }
  if (free_places_.empty()) return ENOSPC;
  const Region region{memory, free_places_.back()};
  const iovec vector{memory.data(), static_cast<std::size_t>(memory.bytes())};
  const int updated = update_table(region.place, vector);
  if (updated != 1) return updated < 0 ? -updated : ENOMEM;
  free_places_.pop_back();
  regions_.insert(first_region_behind(memory.data()), region);
  return 0;
}

void UringEngine::forget_regions(AlignedSpan memory) {
  const std::byte* const end = memory.data() + memory.bytes();
  std::erase_if(regions_, [&](const Region& region) {
    if (region.memory.data() < memory.data() || region.memory.data() >= end) return false;
    update_table(region.place, iovec{nullptr, 0});
    free_places_.push_back(region.place);
    return true;
  });
}

int UringEngine::update_table(int place, const iovec& memory) {
  return io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(place), &memory,
                                              nullptr, 1);
}

std::vector<UringEngine::Region>::const_iterator UringEngine::first_region_behind(
    const std::byte* data) const {
  return std::ranges::upper_bound(regions_, data, {},
                                  [](const Region& region) { return region.memory.data(); });
}

const UringEngine::Region* UringEngine::region_of(AlignedSpan span) const {
  const auto behind = first_region_behind(span.data());
  if (behind == regions_.begin()) return nullptr;
  const Region& region = *std::prev(behind);
  const std::int64_t offset_bytes = span.data() - region.memory.data();
  return offset_bytes + span.bytes() <= region.memory.bytes() ? &region : nullptr;
}

Engine::Submission UringEngine::submit(std::span<const Request> requests) {
  const std::lock_guard lock(submit_mutex_);
  if (refused_errno_ != 0) return {0, refused_errno_};
  for (const Request& request : requests) prepare(request);
  const std::size_t accepted = enter(requests.size());
  return {accepted, refused_errno_};
}

void UringEngine::prepare(const Request& request) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  STRATA_CHECK(entry != nullptr, "more requests than the queue depth");
  if (request.piece.operation == Operation::flush) {
    io_uring_prep_fsync(entry, file_, IORING_FSYNC_DATASYNC);
  } else {
    prepare_transfer(entry, request.piece);
  }
  if (file_registered_) io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(entry, request.tag);
}

void UringEngine::prepare_transfer(io_uring_sqe* entry, const Transfer::Piece& piece) const {
  std::byte* const data = piece.span.data();
  const auto bytes = static_cast<unsigned>(piece.span.bytes());
  const auto offset_bytes = static_cast<std::uint64_t>(piece.offset_bytes);
  const Region* const region = region_of(piece.span);
  const bool is_read = piece.operation == Operation::read;
  if (region != nullptr && is_read) {
    io_uring_prep_read_fixed(entry, file_, data, bytes, offset_bytes, region->place);
  } else if (region != nullptr) {
    io_uring_prep_write_fixed(entry, file_, data, bytes, offset_bytes, region->place);
  } else if (is_read) {
    io_uring_prep_read(entry, file_, data, bytes, offset_bytes);
  } else {
    io_uring_prep_write(entry, file_, data, bytes, offset_bytes);
  }
}

// Submits the entries in the queue; returns how many the kernel took, all of them unless
// refused_errno_ is set.
std::size_t UringEngine::enter(std::size_t prepared) {
  const auto deadline = std::chrono::steady_clock::now() + submit_timeout_;
  std::size_t accepted = 0;
  in_flight_ += static_cast<int>(prepared);
  while (accepted < prepared) {
    const int submitted = io_uring_submit(&ring_);
    if (submitted > 0) {
      accepted += static_cast<std::size_t>(submitted);
      continue;
    }
    const int error = submitted == 0 ? EAGAIN : -submitted;
    const bool transient = error == EAGAIN || error == EBUSY || error == EINTR;
    if (!transient || std::chrono::steady_clock::now() > deadline) {
      refused_errno_ = error;
      in_flight_ -= static_cast<int>(prepared - accepted);
      break;
    }
    std::this_thread::sleep_for(kSubmitPause);
  }
  return accepted;
}

void UringEngine::drain() noexcept {
  std::array<Completion, 64> dropped;
  const auto deadline = std::chrono::steady_clock::now() + kLeaveTimeout;
  try {
    while (in_flight_ > 0) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0 || wait(dropped, left) == 0) return;
    }
  } catch (const IoError&) {
    // The ring is broken: nothing will come.
  }
}

// Only a time-out returns nothing: a signal must not hide completions that are there.
std::size_t UringEngine::wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  __kernel_timespec limit{seconds.count(), (timeout - seconds).count()};
  io_uring_cqe* entry = nullptr;
  int error;
  do {
    error = -io_uring_wait_cqe_timeout(&ring_, &entry, &limit);
  } while (error == EINTR || error == EAGAIN);
  if (error == ETIME) return 0;
  if (error != 0) throw_error<IoError>("wait for {} in io_uring: {}", path_, errno_text(error));
  unsigned count = 0;
  unsigned head = 0;
  io_uring_for_each_cqe(&ring_, head, entry) {
    if (count == completions.size()) break;
    completions[count++] = {io_uring_cqe_get_data64(entry), entry->res};
  }
  io_uring_cq_advance(&ring_, count);
  in_flight_ -= static_cast<int>(count);
  return count;
}

}  // namespace strata::io
