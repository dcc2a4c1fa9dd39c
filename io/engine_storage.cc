#include "io/engine_storage.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "io/check_request.h"
#include "kernels/base/annotate.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

constexpr std::int64_t kPieceBytesLimit = kGiB;  // the kernel refuses a longer vector (EFAULT)
constexpr std::chrono::milliseconds kRetryPause{1};
// So that the reaper notices when a submission that the ring refused was the last in flight.
constexpr std::int64_t kWaitMaxNs = 250'000'000;

std::int64_t piece_bytes_max(const EngineStorageOptions& options) {
  const std::int64_t limit = std::min(options.request_bytes_max, kPieceBytesLimit);
  const std::int64_t alignment = options.alignment_bytes;
  return std::max(limit / alignment * alignment, alignment);
}

// What the kernel does with the buffer, said on this thread, for ThreadSanitizer.
void annotate_transfer(Operation operation, AlignedSpan span) {
  if (operation == Operation::flush) return;
  if (operation == Operation::read) {
    annotate_write(span.data(), span.bytes());
  } else {
    annotate_read(span.data(), span.bytes());
  }
}

}  // namespace

EngineStorage::EngineStorage(EngineStorageOptions options, std::unique_ptr<Engine> engine,
                             Tracer* tracer)
    : options_(std::move(options)),
      timeout_ns_(std::chrono::nanoseconds(options_.timeout).count()),
      piece_bytes_max_(piece_bytes_max(options_)),
      engine_(std::move(engine)),
      tracer_(tracer) {
  STRATA_CHECK(options_.queue_depth > 0 && options_.request_bytes_max > 0 && timeout_ns_ > 0);
  STRATA_CHECK(std::has_single_bit(static_cast<std::uint64_t>(options_.alignment_bytes)));
  STRATA_CHECK(options_.capacity_bytes % options_.alignment_bytes == 0);
  if (tracer_ != nullptr) {
    read_track_ = tracer_->add_track("nvme read");
    write_track_ = tracer_->add_track("nvme write");
  }
  slots_.resize(static_cast<std::size_t>(options_.queue_depth));
  free_slots_.reserve(slots_.size());
  for (Slot& slot : slots_) free_slots_.push_back(&slot);
  reaper_ = std::thread([this] { reap(); });
  pthread_setname_np(reaper_.native_handle(), "nvme reaper");
}

EngineStorage::~EngineStorage() {
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return in_flight_ == 0; });
    stopping_ = true;
  }
  work_.notify_one();
  reaper_.join();
}

void EngineStorage::read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) {
  split(Operation::read, offset_bytes, destination, group);
}

void EngineStorage::write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) {
  split(Operation::write, offset_bytes, source, group);
}

void EngineStorage::flush(IoGroup& group) {
  start(Transfer(Operation::flush, 0, AlignedSpan(), options_.alignment_bytes), group);
}

StorageTraffic EngineStorage::device_traffic(int /*device*/) const {
  return {read_bytes_.load(std::memory_order_relaxed),
          written_bytes_.load(std::memory_order_relaxed)};
}

void EngineStorage::split(Operation operation, std::int64_t offset_bytes, AlignedSpan span,
                          IoGroup& group) {
  check_request(*this, offset_bytes, span);
  for (std::int64_t begin = 0; begin < span.bytes(); begin += piece_bytes_max_) {
    const std::int64_t bytes = std::min(piece_bytes_max_, span.bytes() - begin);
    start(
        Transfer(operation, offset_bytes + begin, span.sub(begin, bytes), options_.alignment_bytes),
        group);
  }
}

void EngineStorage::start(const Transfer& transfer, IoGroup& group) {
  group.add();
  Slot* slot = take_slot(transfer, group);
  if (slot == nullptr) {
    group.complete(failure_);  // set once, before take_slot() saw it
    return;
  }
  annotate_transfer(transfer.operation(), transfer.span());
  hand_to_engine(*slot);
}

EngineStorage::Slot* EngineStorage::take_slot(const Transfer& transfer, IoGroup& group) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return failure_ || !free_slots_.empty(); });
  if (failure_) return nullptr;
  Slot* slot = free_slots_.back();
  free_slots_.pop_back();
  *slot = {transfer, &group, Tracer::now_ns(), SlotState::in_flight};
  if (in_flight_++ == 0) work_.notify_one();
  return slot;
}

void EngineStorage::hand_to_engine(Slot& slot) {
  const Transfer::Piece piece = slot.transfer.rest();
  annotate_release(&slot);
  const Engine::Request request{piece, tag_of(slot)};
  const int error = engine_->submit({&request, 1}).error_number;
  if (error == 0) return;
  std::exception_ptr failure = std::make_exception_ptr(slot.transfer.failure(
      options_.path, fmt::format("io_uring did not accept it: {}", errno_text(error))));
  const std::lock_guard lock(mutex_);
  if (slot.state == SlotState::in_flight) abandon(slot, std::move(failure));
}

void EngineStorage::reap() {
  std::array<Engine::Completion, 64> completions;
  try {
    while (wait_for_work()) {
      const std::size_t count = engine_->wait(completions, abandon_overdue());
      for (std::size_t i = 0; i < count; ++i) on_completion(completions[i]);
    }
  } catch (...) {
    abandon_all(std::current_exception());
  }
}

bool EngineStorage::wait_for_work() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return in_flight_ > 0 || stopping_; });
  return in_flight_ > 0;
}

std::chrono::nanoseconds EngineStorage::abandon_overdue() {
  const std::lock_guard lock(mutex_);
  if (in_flight_ == 0) return {};
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::in_flight) continue;
    if (oldest == nullptr || slot.started_ns < oldest->started_ns) oldest = &slot;
  }
  const std::int64_t now_ns = Tracer::now_ns();
  const std::int64_t left_ns = oldest->started_ns + timeout_ns_ - now_ns;
  if (left_ns > 0) {
    overdue_since_ns_ = 0;
    return std::chrono::nanoseconds(std::min(left_ns, kWaitMaxNs));
  }
  if (overdue_since_ns_ == 0) overdue_since_ns_ = now_ns;
  const std::int64_t grace_left_ns = overdue_since_ns_ + timeout_ns_ / 16 - now_ns;
  if (grace_left_ns > 0) return std::chrono::nanoseconds(std::min(grace_left_ns, kWaitMaxNs));

  overdue_since_ns_ = 0;
  abandon(*oldest, overdue_failure(*oldest, now_ns));
  for (Slot& slot : slots_) {
    const bool overdue = slot.started_ns + timeout_ns_ <= now_ns;
    if (slot.state == SlotState::in_flight && overdue) abandon(slot, overdue_failure(slot, now_ns));
  }
  return {};
}

std::exception_ptr EngineStorage::overdue_failure(const Slot& slot, std::int64_t now_ns) const {
  const std::string reason = fmt::format(
      "not completed after {:.1f} s (the limit is {:.1f} s, --io-timeout): the drive or its driver "
      "is "
      "stuck",
      static_cast<double>(now_ns - slot.started_ns) * 1e-9,
      static_cast<double>(timeout_ns_) * 1e-9);
  return std::make_exception_ptr(slot.transfer.failure(options_.path, reason));
}

// The buffer is annotated before any lock is taken: a lock would order it after unrelated work of
// the submitter's and hide a missing wait.
void EngineStorage::on_completion(const Engine::Completion& completion) {
  Slot& slot = slots_[completion.tag];
  annotate_acquire(&slot);
  if (slot.state == SlotState::abandoned) {
    const std::lock_guard lock(mutex_);
    release(slot);
    return;
  }
  const Transfer::Next next = slot.transfer.on_result(completion.result);
  if (next == Transfer::Next::resume || next == Transfer::Next::retry) {
    if (next == Transfer::Next::retry) std::this_thread::sleep_for(kRetryPause);
    hand_to_engine(slot);
    return;
  }
  annotate_transfer(slot.transfer.operation(), slot.transfer.span());
  if (next == Transfer::Next::failed) {
    // A statement of its own: the exception shares its text with the temporary it is made from,
    // which has to be gone before anyone can wait.
    std::exception_ptr failure = std::make_exception_ptr(slot.transfer.failure(options_.path));
    finish(slot, std::move(failure));
  } else {
    count(slot);
    finish(slot, nullptr);
  }
}

void EngineStorage::finish(Slot& slot, std::exception_ptr failure) {
  IoGroup& group = *slot.group;
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    release(slot);
  }
  group.complete(std::move(failure));
}

void EngineStorage::release(Slot& slot) {
  slot.state = SlotState::free;
  free_slots_.push_back(&slot);
  freed_.notify_one();
}

void EngineStorage::abandon(Slot& slot, std::exception_ptr failure) {
  if (!failure_) failure_ = failure;
  slot.state = SlotState::abandoned;
  --in_flight_;
  freed_.notify_all();
  slot.group->complete(std::move(failure));
}

void EngineStorage::abandon_all(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::in_flight) abandon(slot, failure);
  }
}

void EngineStorage::count(const Slot& slot) {
  const bool is_read = slot.transfer.operation() == Operation::read;
  const std::int64_t bytes = slot.transfer.bytes();
  if (slot.transfer.operation() == Operation::flush) return;
  (is_read ? read_bytes_ : written_bytes_).fetch_add(bytes, std::memory_order_relaxed);
  if (tracer_ == nullptr) return;
  tracer_->record(is_read ? read_track_ : write_track_, is_read ? "read" : "write", slot.started_ns,
                  Tracer::now_ns(), bytes);
}

std::uint64_t EngineStorage::tag_of(const Slot& slot) const {
  return static_cast<std::uint64_t>(&slot - slots_.data());
}

}  // namespace strata::io
