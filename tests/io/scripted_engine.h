// ScriptedEngine: an Engine on memory that answers as a script says: short, late, with errors,
// never, or without having been asked.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/engine.h"
#include "kernels/base/error.h"

namespace strata::io {

inline constexpr int kNever = 1;  // not a result: those are multiples of the alignment, or negative

class ScriptedEngine final : public Engine {
 public:
  // The result of request number `n` (from 0), or kNever.
  using Script = std::function<int(const Transfer::Piece& piece, int n)>;

  // Requests are carried out at once, as far as the script lets them.
  ScriptedEngine(std::int64_t capacity_bytes, Script script)
      : script_(std::move(script)), memory_(static_cast<std::size_t>(capacity_bytes)) {}

  Submission submit(std::span<const Request> requests) override {
    const std::lock_guard lock(mutex_);
    batches_.push_back(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (accepted_left_ == 0) return {i, refusal_};
      --accepted_left_;
      carry_out(requests[i]);
    }
    changed_.notify_one();
    return {requests.size(), 0};
  }

  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return broken_ || !completions_.empty(); });
    if (broken_) throw IoError("the ring is broken");
    std::size_t count = 0;
    while (count < completions.size() && !completions_.empty()) {
      completions[count++] = completions_.front();
      completions_.pop_front();
    }
    return count;
  }

  std::string description() const override { return "a script"; }

  void refuse_after(std::size_t accepted, int error_number) {
    const std::lock_guard lock(mutex_);
    accepted_left_ = accepted;
    refusal_ = error_number;
  }
  void break_down() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_one();
  }
  void answer(Completion completion) {
    const std::lock_guard lock(mutex_);
    completions_.push_back(completion);
    changed_.notify_one();
  }
  // Answers the oldest requests that the script has not.
  void complete_stuck(std::size_t count = std::numeric_limits<std::size_t>::max()) {
    const std::lock_guard lock(mutex_);
    for (; count > 0 && !stuck_.empty(); --count) {
      completions_.push_back(stuck_.front());
      stuck_.pop_front();
    }
    changed_.notify_one();
  }

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // How many requests each call of submit() had.
  std::vector<std::size_t> batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  void carry_out(const Request& request) {
    const Transfer::Piece& piece = request.piece;
    requests_.push_back(request);
    const int result = script_(piece, static_cast<int>(requests_.size()) - 1);
    if (result == kNever) {
      stuck_.push_back({request.tag, static_cast<std::int32_t>(piece.span.bytes())});
      return;
    }
    std::byte* const stored = memory_.data() + piece.offset_bytes;
    if (result > 0 && piece.operation == Operation::read) {
      std::memcpy(piece.span.data(), stored, static_cast<std::size_t>(result));
    } else if (result > 0) {
      std::memcpy(stored, piece.span.data(), static_cast<std::size_t>(result));
    }
    completions_.push_back({request.tag, result});
  }

  Script script_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> memory_;
  std::vector<Request> requests_;
  std::vector<std::size_t> batches_;
  std::deque<Completion> completions_;
  std::deque<Completion> stuck_;
  std::size_t accepted_left_ = std::numeric_limits<std::size_t>::max();
  int refusal_ = 0;
  bool broken_ = false;
};

}  // namespace strata::io
