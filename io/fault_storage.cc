#include "io/fault_storage.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "io/check_request.h"
#include "io/transfer.h"

namespace strata::io {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kQueueCapacity = 256;

// splitmix64 (Steele, Lea, Flood 2014): the seed and the request number decide, not the timing.
std::uint64_t mix(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t z = seed + (number + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Requests wait in a heap, earliest due time first; one thread carries each out, start to end.
class FaultStorage final : public Storage {
 public:
  FaultStorage(std::unique_ptr<Storage> under, const FaultRules& rules)
      : under_(std::move(under)), rules_(rules) {
    queue_.reserve(kQueueCapacity);
    worker_ = std::thread([this] { work(); });
    pthread_setname_np(worker_.native_handle(), "fault storage");
  }

  ~FaultStorage() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    queued_.notify_one();
    worker_.join();
  }

  void read(std::int64_t offset_bytes, AlignedSpan destination, IoGroup& group) override {
    queue(Operation::read, offset_bytes, destination, group);
  }
  void write(std::int64_t offset_bytes, AlignedSpan source, IoGroup& group) override {
    queue(Operation::write, offset_bytes, source, group);
  }

  void flush(IoGroup& group) override { under_->flush(group); }

  std::int64_t capacity_bytes() const override { return under_->capacity_bytes(); }
  std::int64_t alignment_bytes() const override { return under_->alignment_bytes(); }
  std::string description() const override {
    return fmt::format("faults of seed {} on {}", rules_.seed, under_->description());
  }
  std::string device_path(int /*device*/) const override { return description(); }
  StorageTraffic device_traffic(int /*device*/) const override { return under_->traffic(); }

 private:
  struct Request {
    Operation operation;
    std::int64_t offset_bytes;
    AlignedSpan span;
    IoGroup* group;
    std::int64_t number;
    Clock::time_point due;
    int error_number = 0;  // 0: carried out
    bool flips = false;

    // Of the heap, whose front is its largest: the request due first.
    friend bool operator<(const Request& a, const Request& b) {
      return std::pair(a.due, a.number) > std::pair(b.due, b.number);
    }
  };

  void queue(Operation operation, std::int64_t offset_bytes, AlignedSpan span, IoGroup& group) {
    check_request(*this, offset_bytes, span);
    if (span.bytes() == 0) return;
    group.add();
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return queue_.size() < kQueueCapacity; });
    queue_.push_back(decide(operation, offset_bytes, span, group));
    std::push_heap(queue_.begin(), queue_.end());
    queued_.notify_one();
  }

  Request decide(Operation operation, std::int64_t offset_bytes, AlignedSpan span, IoGroup& group) {
    const std::int64_t number = requests_++;
    const auto stream = static_cast<std::uint64_t>(number) * 2;
    const auto delay_values = static_cast<std::uint64_t>(rules_.delay_us_max) + 1;
    const std::chrono::microseconds delay(mix(rules_.seed, stream) % delay_values);
    const double uniform = static_cast<double>(mix(rules_.seed, stream + 1) >> 11) * 0x1p-53;

    Request request{operation, offset_bytes, span, &group, number, Clock::now() + delay};
    if (number == rules_.fail_request || uniform < rules_.error_probability) {
      request.error_number = EIO;
    } else if (operation == Operation::write) {
      const bool fits =
          rules_.full_after_bytes < 0 || accepted_bytes_ + span.bytes() <= rules_.full_after_bytes;
      if (fits) accepted_bytes_ += span.bytes();
      if (!fits) request.error_number = ENOSPC;
    }
    if (operation == Operation::read) request.flips = reads_++ == rules_.flip_read;
    return request;
  }

  void work() {
    while (const std::optional<Request> request = next()) {
      std::exception_ptr failure;
      try {
        carry_out(*request);
      } catch (...) {
        failure = std::current_exception();
      }
      request->group->complete(std::move(failure));
    }
  }

  // Blocks until a request is due; nothing when the storage is to stop and all are done.
  std::optional<Request> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return std::nullopt;
      const Clock::time_point due = queue_.front().due;
      if (due <= Clock::now()) break;
      queued_.wait_until(lock, due);
    }
    std::pop_heap(queue_.begin(), queue_.end());
    const Request request = queue_.back();
    queue_.pop_back();
    freed_.notify_one();
    return request;
  }

  void carry_out(const Request& request) {
    if (request.error_number != 0) {
      throw request_error(request.operation, description(), request.offset_bytes,
                          request.span.bytes(),
                          fmt::format("{}, injected into request {}",
                                      errno_text(request.error_number), request.number));
    }
    IoGroup group;
    if (request.operation == Operation::read) {
      under_->read(request.offset_bytes, request.span, group);
    } else {
      under_->write(request.offset_bytes, request.span, group);
    }
    group.wait();
    if (request.flips) flip_bit(request.span);
  }

  void flip_bit(AlignedSpan span) const {
    const std::uint64_t bit = mix(~rules_.seed, 0) % (static_cast<std::uint64_t>(span.bytes()) * 8);
    span.data()[bit / 8] ^= std::byte{1} << (bit % 8);
  }

  std::unique_ptr<Storage> under_;
  const FaultRules rules_;
  std::mutex mutex_;
  std::condition_variable queued_;  // the worker: a request came, or it is to stop
  std::condition_variable freed_;   // submitters: there is room again
  std::vector<Request> queue_;
  std::int64_t requests_ = 0;
  std::int64_t reads_ = 0;
  std::int64_t accepted_bytes_ = 0;  // of writes
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace

std::unique_ptr<Storage> make_fault_storage(std::unique_ptr<Storage> under,
                                            const FaultRules& rules) {
  return std::make_unique<FaultStorage>(std::move(under), rules);
}

}  // namespace strata::io
