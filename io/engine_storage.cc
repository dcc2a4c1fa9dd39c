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
// So that the reaper notices when a submission that the engine refused was the last in flight.
constexpr std::int64_t kWaitMaxNs = 250'000'000;

std::int64_t piece_bytes_max(const EngineStorageOptions& options) {
  const std::int64_t limit = std::min(options.request_bytes_max, kPieceBytesLimit);
  const std::int64_t alignment = options.alignment_bytes;
  return std::max(limit / alignment * alignment, alignment);
}

// What the kernel does with the buffer, said on this thread, for ThreadSanitizer.
void annotate_transfer(const Transfer& transfer) {
  const AlignedSpan span = transfer.span();
  if (transfer.operation() == Operation::read) {
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
      tracer_(tracer),
      slots_(options_.queue_depth) {
  STRATA_CHECK(options_.request_bytes_max > 0 && timeout_ns_ > 0);
  STRATA_CHECK(std::has_single_bit(static_cast<std::uint64_t>(options_.alignment_bytes)));
  STRATA_CHECK(options_.capacity_bytes % options_.alignment_bytes == 0);
  if (tracer_ != nullptr) {
    read_track_ = tracer_->add_track("nvme read");
    write_track_ = tracer_->add_track("nvme write");
  }
  reaper_ = std::thread([this] { reap(); });
  pthread_setname_np(reaper_.native_handle(), "nvme reaper");
}

EngineStorage::~EngineStorage() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return slots_.in_flight() == 0; });
    stopping_ = true;
  }
  work_.notify_one();
  reaper_.join();
}

void EngineStorage::read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) {
  check_request(*this, offset_bytes, destination);
  start({Operation::read, offset_bytes, destination, &group,
         ceil_div(destination.bytes(), piece_bytes_max_)});
}

void EngineStorage::write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) {
  check_request(*this, offset_bytes, source);
  start(
      {Operation::write, offset_bytes, source, &group, ceil_div(source.bytes(), piece_bytes_max_)});
}

void EngineStorage::flush(IoGroup& group) {
  start({Operation::flush, 0, AlignedSpan(), &group, 1});
}

std::string EngineStorage::description() const {
  return fmt::format("{}, queue depth {}", engine_->description(), options_.queue_depth);
}

StorageTraffic EngineStorage::device_traffic(int /*device*/) const {
  return {read_bytes_.load(std::memory_order_relaxed),
          written_bytes_.load(std::memory_order_relaxed)};
}

void EngineStorage::start(Work work) {
  while (work.pieces > 0) {
    const SlotBatch slots = take_slots(work);
    if (slots.empty()) {
      work.group->add();
      work.group->complete(failure_);  // set once, before take_slots() saw it
      return;
    }
    for (const Slot* slot : slots.span()) annotate_transfer(slot->transfer);
    hand_to_engine(slots);
  }
}

SlotBatch EngineStorage::take_slots(Work& work) {
  SlotBatch taken;
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return failure_ || !slots_.saturated(); });
  if (failure_) return taken;
  const std::int64_t now_ns = Tracer::now_ns();
  if (slots_.in_flight() == 0) work_.notify_one();
  while (work.pieces > 0 && !taken.full() && slots_.has_free()) {
    Slot& slot = slots_.take();
    slot.transfer = next_piece(work);
    slot.group = work.group;
    slot.started_ns = now_ns;
    taken.push(slot);
  }
  work.group->add(static_cast<int>(taken.count()));
  return taken;
}

Transfer EngineStorage::next_piece(Work& work) const {
  const std::int64_t bytes = std::min(piece_bytes_max_, work.span.bytes());
  const Transfer piece(work.operation, work.offset_bytes, work.span.sub(0, bytes),
                       options_.alignment_bytes);
  work.offset_bytes += bytes;
  work.span = work.span.sub(bytes, work.span.bytes() - bytes);
  --work.pieces;
  return piece;
}

void EngineStorage::hand_to_engine(const SlotBatch& slots) {
  std::array<Engine::Request, SlotBatch::kMax> requests;
  std::size_t count = 0;
  for (Slot* slot : slots.span()) {
    requests[count++] = {slot->transfer.rest(), slot->tag.load(std::memory_order_relaxed)};
    annotate_release(slot);
  }
  const auto [accepted, error_number] = engine_->submit({requests.data(), count});
  if (accepted < count) abandon_refused(slots.span().subspan(accepted), error_number);
}

void EngineStorage::abandon_refused(std::span<Slot* const> slots, int error_number) {
  const std::lock_guard lock(mutex_);
  for (Slot* slot : slots) {
    if (!slot->is_in_flight()) continue;  // overdue meanwhile
    std::exception_ptr failure = std::make_exception_ptr(slot->transfer.failure(
        options_.path, fmt::format("the system did not accept it: {}", errno_text(error_number))));
    abandon(*slot, std::move(failure));
  }
}

void EngineStorage::reap() {
  std::array<Engine::Completion, SlotBatch::kMax> completions;
  try {
    while (const auto timeout = next_wait()) {
      const std::size_t count = engine_->wait(completions, *timeout);
      on_completions({completions.data(), count});
    }
  } catch (...) {
    abandon_all(std::current_exception());
  }
}

std::optional<std::chrono::nanoseconds> EngineStorage::next_wait() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return slots_.in_flight() > 0 || stopping_; });
  if (slots_.in_flight() == 0) return std::nullopt;
  return abandon_overdue();
}

// Buffers are annotated before any lock is taken: a lock would order them after unrelated work of
// the submitters' and hide a missing wait.
void EngineStorage::on_completions(std::span<const Engine::Completion> completions) {
  SlotBatch over;
  SlotBatch unfinished;
  bool pause = false;
  for (const Engine::Completion& completion : completions) {
    Slot* const slot = slots_.take_answered(completion.tag);
    if (slot == nullptr) {
      fail_stray();
      continue;
    }
    const Transfer::Next next = slot->transfer.on_result(completion.result);
    if (next == Transfer::Next::done || next == Transfer::Next::failed) {
      conclude(*slot, next);
      over.push(*slot);
    } else {
      pause |= next == Transfer::Next::retry;
      slots_.renew_tag(*slot);
      unfinished.push(*slot);
    }
  }
  if (!over.empty()) finish(over);
  if (pause) std::this_thread::sleep_for(kRetryPause);
  if (!unfinished.empty()) hand_to_engine(unfinished);
}

// An exception shares its text with the temporary that it is made from, which has to be gone before
// anyone can wait.
void EngineStorage::conclude(Slot& slot, Transfer::Next next) {
  annotate_transfer(slot.transfer);
  if (next == Transfer::Next::failed) {
    slot.failure = std::make_exception_ptr(slot.transfer.failure(options_.path));
  } else {
    count(slot);
  }
}

void EngineStorage::count(const Slot& slot) {
  if (slot.transfer.operation() == Operation::flush) return;
  const bool is_read = slot.transfer.operation() == Operation::read;
  const std::int64_t bytes = slot.transfer.bytes();
  (is_read ? read_bytes_ : written_bytes_).fetch_add(bytes, std::memory_order_relaxed);
  if (tracer_ == nullptr) return;
  tracer_->record(is_read ? read_track_ : write_track_, is_read ? "read" : "write", slot.started_ns,
                  Tracer::now_ns(), bytes);
}

void EngineStorage::finish(const SlotBatch& slots) {
  const std::lock_guard lock(mutex_);
  for (Slot* slot : slots.span()) slot->group->complete(std::exchange(slot->failure, nullptr));
  if (slots_.release(slots)) freed_.notify_all();
  if (slots_.in_flight() == 0) idle_.notify_one();
}

std::chrono::nanoseconds EngineStorage::abandon_overdue() {
  const std::int64_t now_ns = Tracer::now_ns();
  Slot* const oldest = slots_.oldest_in_flight();
  const std::int64_t left_ns =
      oldest == nullptr ? timeout_ns_ : oldest->started_ns + timeout_ns_ - now_ns;
  if (left_ns > 0) {
    overdue_since_ns_ = 0;
    return std::chrono::nanoseconds(std::min(left_ns, kWaitMaxNs));
  }
  if (overdue_since_ns_ == 0) overdue_since_ns_ = now_ns;
  const std::int64_t grace_left_ns = overdue_since_ns_ + timeout_ns_ / 16 - now_ns;
  if (grace_left_ns > 0) return std::chrono::nanoseconds(std::min(grace_left_ns, kWaitMaxNs));

  overdue_since_ns_ = 0;
  abandon(*oldest, overdue_failure(*oldest, now_ns));
  for (Slot& slot : slots_.all()) {
    const bool overdue = slot.started_ns + timeout_ns_ <= now_ns;
    if (slot.is_in_flight() && overdue) abandon(slot, overdue_failure(slot, now_ns));
  }
  return {};
}

std::exception_ptr EngineStorage::overdue_failure(const Slot& slot, std::int64_t now_ns) const {
  const std::string reason = fmt::format(
      "not completed after {:.1f} s (the limit is {:.1f} s, --io-timeout): the drive or its driver "
      "is stuck",
      static_cast<double>(now_ns - slot.started_ns) * 1e-9,
      static_cast<double>(timeout_ns_) * 1e-9);
  return std::make_exception_ptr(slot.transfer.failure(options_.path, reason));
}

void EngineStorage::fail_stray() {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  set_failure(std::make_exception_ptr(
      IoError(fmt::format("{}: {} answered a request that is not in flight, or answered one twice: "
                          "its results cannot be trusted",
                          options_.path, engine_->description()))));
}

void EngineStorage::abandon_all(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  set_failure(failure);
  for (Slot& slot : slots_.all()) {
    if (slot.is_in_flight()) abandon(slot, failure);
  }
}

void EngineStorage::abandon(Slot& slot, std::exception_ptr failure) {
  set_failure(failure);
  slots_.abandon(slot);
  slot.group->complete(std::move(failure));
  if (slots_.in_flight() == 0) idle_.notify_one();
}

void EngineStorage::set_failure(std::exception_ptr failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  freed_.notify_all();
}

std::unique_ptr<EngineStorage> open_engine_storage(const DirectFile& file,
                                                   std::int64_t capacity_bytes,
                                                   const EngineOptions& options, Tracer* tracer) {
  EngineStorageOptions storage_options{.path = file.path(),
                                       .capacity_bytes = capacity_bytes,
                                       .alignment_bytes = file.alignment_bytes(),
                                       .request_bytes_max = options.request_bytes_max,
                                       .queue_depth = options.queue_depth,
                                       .timeout = options.timeout};
  return std::make_unique<EngineStorage>(
      std::move(storage_options), make_engine(file.descriptor(), file.path(), options), tracer);
}

}  // namespace strata::io
