#include "io/thread_engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include "io/file_descriptor.h"

namespace strata::io {
namespace {

constexpr int kThreadsMax = 16;

// First in, first out, of a capacity fixed at construction.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(int capacity) : items_(static_cast<std::size_t>(capacity)) {}

  bool empty() const { return count_ == 0; }
  void push(const T& item) {
    STRATA_CHECK(count_ < items_.size(), "more requests than the queue depth");
    items_[(first_ + count_++) % items_.size()] = item;
  }
  T pop() {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

FileDescriptor duplicate(int descriptor, const std::string& path) {
  FileDescriptor copy(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) throw_error<IoError>("duplicate {}: {}", path, errno_text(errno));
  return copy;
}

std::int32_t carry_out(int descriptor, const Transfer::Piece& piece) {
  const auto bytes = static_cast<std::size_t>(piece.span.bytes());
  ssize_t result = 0;
  switch (piece.operation) {
    case Operation::read:
      result = pread(descriptor, piece.span.data(), bytes, piece.offset_bytes);
      break;
    case Operation::write:
      result = pwrite(descriptor, piece.span.data(), bytes, piece.offset_bytes);
      break;
    case Operation::flush:
      result = fdatasync(descriptor);
      break;
  }
  return static_cast<std::int32_t>(result < 0 ? -errno : result);
}

}  // namespace

class ThreadEngine::Shared {
 public:
  Shared(FileDescriptor descriptor, int queue_depth)
      : descriptor_(std::move(descriptor)), requests_(queue_depth), completions_(queue_depth) {}

  void submit(std::span<const Request> requests) {
    const std::lock_guard lock(mutex_);
    for (const Request& request : requests) requests_.push(request);
    const auto wanted = static_cast<int>(std::min<std::size_t>(requests.size(), kThreadsMax));
    for (int i = 0; i < std::min(wanted, sleeping_); ++i) submitted_.notify_one();
  }

  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, timeout, [&] { return !completions_.empty(); });
    std::size_t count = 0;
    while (count < completions.size() && !completions_.empty()) {
      completions[count++] = completions_.pop();
    }
    return count;
  }

  // One of the threads, until the engine is destroyed.
  void run() {
    std::unique_lock lock(mutex_);
    ++running_;
    for (;;) {
      ++sleeping_;
      submitted_.wait(lock, [&] { return stopping_ || !requests_.empty(); });
      --sleeping_;
      if (stopping_) break;
      const Request request = requests_.pop();
      lock.unlock();
      const Completion completion{request.tag, carry_out(descriptor_.get(), request.piece)};
      lock.lock();
      completions_.push(completion);
      answered_.notify_one();
    }
    if (--running_ == 0) ended_.notify_one();
  }

  // False when some thread is still in the kernel after a while. One that has not begun to run()
  // ends at once.
  bool stop() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    submitted_.notify_all();
    return ended_.wait_for(lock, kLeaveTimeout, [&] { return running_ == 0; });
  }

 private:
  const FileDescriptor descriptor_;
  std::mutex mutex_;
  std::condition_variable submitted_;  // the threads: a request, or they are to end
  std::condition_variable answered_;   // the waiter
  std::condition_variable ended_;      // the destructor: the last thread ends
  BoundedQueue<Request> requests_;
  BoundedQueue<Completion> completions_;
  int sleeping_ = 0;
  int running_ = 0;
  bool stopping_ = false;
};

ThreadEngine::ThreadEngine(int descriptor, const std::string& path, int queue_depth)
    : shared_(std::make_shared<Shared>(duplicate(descriptor, path), queue_depth)) {
  const int wanted = std::min(queue_depth, kThreadsMax);
  threads_.reserve(static_cast<std::size_t>(wanted));
  try {
    for (int i = 0; i < wanted; ++i) {
      threads_.emplace_back([shared = shared_] { shared->run(); });
      pthread_setname_np(threads_.back().native_handle(), "nvme thread");
    }
  } catch (const std::system_error& error) {
    if (threads_.empty()) throw_error<IoError>("a thread for {}: {}", path, error.what());
  }
}

ThreadEngine::~ThreadEngine() {
  const bool ended = shared_->stop();
  for (std::thread& thread : threads_) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

Engine::Submission ThreadEngine::submit(std::span<const Request> requests) {
  shared_->submit(requests);
  return {requests.size(), 0};
}

std::size_t ThreadEngine::wait(std::span<Completion> completions,
                               std::chrono::nanoseconds timeout) {
  return shared_->wait(completions, timeout);
}

std::string ThreadEngine::description() const { return fmt::format("{} threads", threads_.size()); }

}  // namespace strata::io
