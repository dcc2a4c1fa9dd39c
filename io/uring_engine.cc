#include "io/uring_engine.h"

#include <cerrno>
#include <thread>
#include <utility>

namespace strata::io {
namespace {

constexpr int kFileIndex = 0;  // in the table of registered files
constexpr std::chrono::milliseconds kSubmitPause{1};

[[noreturn]] void throw_unavailable(int error_number) {
  throw_error<IoError>(
      "io_uring is not available here: io_uring_setup: {}; allow it (sysctl "
      "kernel.io_uring_disabled=0; in a container, a seccomp profile that permits io_uring)",
      errno_text(error_number));
}

}  // namespace

UringEngine::UringEngine(int descriptor, std::string path, int queue_depth,
                         std::chrono::milliseconds submit_timeout)
    : path_(std::move(path)), submit_timeout_(submit_timeout) {
  const int error = -io_uring_queue_init(static_cast<unsigned>(queue_depth), &ring_, 0);
  if (error == EPERM || error == EACCES || error == ENOSYS) throw_unavailable(error);
  if (error != 0) {
    throw_error<IoError>("io_uring with a queue depth of {}: {}", queue_depth, errno_text(error));
  }
  // Without it liburing times a wait by a submission of its own, which is not thread-safe.
  if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) {
    io_uring_queue_exit(&ring_);
    throw_error<IoError>(
        "io_uring of this kernel has no IORING_FEAT_EXT_ARG: Linux 5.11 or later "
        "is needed");
  }
  const int register_error = -io_uring_register_files(&ring_, &descriptor, 1);
  if (register_error != 0) {
    io_uring_queue_exit(&ring_);
    throw_error<IoError>("io_uring_register_files {}: {}", path_, errno_text(register_error));
  }
}

UringEngine::~UringEngine() {
  io_uring_unregister_files(&ring_);
  io_uring_queue_exit(&ring_);
}

std::string UringEngine::description() const { return "io_uring, registered file"; }

Engine::Submission UringEngine::submit(std::span<const Request> requests) {
  const std::lock_guard lock(submit_mutex_);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (refused_errno_ == 0) {
      prepare(requests[i]);
      refused_errno_ = enter();
    }
    if (refused_errno_ != 0) return {i, refused_errno_};
  }
  return {requests.size(), 0};
}

void UringEngine::prepare(const Request& request) {
  const Transfer::Piece& piece = request.piece;
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  STRATA_CHECK(entry != nullptr, "more requests than the queue depth");
  const auto bytes = static_cast<unsigned>(piece.span.bytes());
  const auto offset_bytes = static_cast<std::uint64_t>(piece.offset_bytes);
  if (piece.operation == Operation::read) {
    io_uring_prep_read(entry, kFileIndex, piece.span.data(), bytes, offset_bytes);
  } else if (piece.operation == Operation::flush) {
    io_uring_prep_fsync(entry, kFileIndex, IORING_FSYNC_DATASYNC);
  } else {
    io_uring_prep_write(entry, kFileIndex, piece.span.data(), bytes, offset_bytes);
  }
  io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(entry, request.tag);
}

// Submits the one entry in the queue.
int UringEngine::enter() {
  const auto deadline = std::chrono::steady_clock::now() + submit_timeout_;
  for (;;) {
    const int submitted = io_uring_submit(&ring_);
    if (submitted > 0) return 0;
    const int error = submitted == 0 ? EAGAIN : -submitted;
    const bool transient = error == EAGAIN || error == EBUSY || error == EINTR;
    if (!transient || std::chrono::steady_clock::now() > deadline) return error;
    std::this_thread::sleep_for(kSubmitPause);
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
  std::size_t count = 0;
  while (count < completions.size() && io_uring_peek_cqe(&ring_, &entry) == 0) {
    completions[count++] = {io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
  }
  return count;
}

}  // namespace strata::io
