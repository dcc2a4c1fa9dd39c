// A block of simulated threads, and the grid that it is one of.
//
// Blocks run one after the other on the thread of their stream, and their threads as fibers: each
// runs until it ends or waits for others. Even blocks start with their first thread, odd ones with
// their last, so that a missing barrier shows whichever thread it is that must not be late. A
// thread that waits for no other runs without any switch: the next takes over its stack.
//
//   not started ──▶ running ◀──▶ waiting (at a barrier or shuffle)
//                      └──▶ done
//
// A barrier or shuffle that some threads miss, or where others come to another one, is reported.
//
// Shared memory is 0xFF bytes at the start, and so is what a copy goes to until its thread waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda_sim/fiber.h"
#include "kernels/device/cuda/launch_size.h"

namespace strata::cuda_sim {

inline constexpr int kBlockThreadsMax = 1024;
inline constexpr std::int64_t kSharedBytesMax = 99 * 1024;  // the least since sm_80, asked for
inline constexpr int kLanes = 32;

// A barrier or shuffle in the source.
struct Place {
  const char* what;
  const char* file;
  int line;
};

// Of all threads of a block or a warp; the last to come lets the others go on.
struct Meeting {
  std::uint32_t round = 0;
  int arrived = 0;
  Place place = {};
};

struct BlockIndex {
  std::int64_t x;
  std::int64_t y;
  std::int64_t z;
};

// One for each thread that runs kernels, used again for each block.
class Block {
 public:
  using Kernel = void (*)(const void* closure);

  Block();
  ~Block();
  void run_grid(const cuda::LaunchSize& size, Kernel kernel, const void* closure);

  // For the thread that runs.
  int thread() const { return thread_; }
  const BlockIndex& index() const { return index_; }
  const cuda::LaunchSize& size() const { return size_; }
  std::byte* shared_memory() { return shared_->bytes; }
  void sync_threads(const Place& place) { meet(meeting_, size_.threads, place); }
  void sync_warp(const Place& place) { meet(warp().meeting, kLanes, place); }
  // Every lane of the warp gives a value and gets what all of them gave, until its next meeting.
  template <typename T>
  struct Exchanged {
    const std::byte* slots;
    T operator[](int lane) const {
      T value;
      std::memcpy(&value, slots + lane * kSlotBytes, sizeof(T));
      return value;
    }
  };
  template <typename T>
  Exchanged<T> exchange(const T& value, const Place& place);

  // Into shared memory, of 16 bytes; they arrive when the thread waits.
  template <typename Value>
  void copy_async(Value& to, const Value& value) {
    std::memcpy(copies_of_thread().emplace_back(AsyncCopy{&to, {}}).bytes, &value, kAsyncBytes);
    std::memset(&to, kUndefined, sizeof(Value));
    static_assert(sizeof(Value) == kAsyncBytes);
  }
  void async_wait();

  std::string whereabouts() const;

 private:
  static constexpr int kSlotBytes = 32;
  static constexpr int kAsyncBytes = 16;
  static constexpr int kUndefined = 0xFF;

  struct alignas(128) SharedBytes {
    std::byte bytes[kSharedBytesMax];
  };
  struct AsyncCopy {
    void* to;
    std::byte bytes[kAsyncBytes];
  };
  struct Thread {
    const std::uint32_t* waits_for;  // it may run when this differs from `seen`
    std::uint32_t seen;
    Fiber* fiber;  // null: not started, or done
    Place place;   // where it waits
  };
  struct Warp {
    Meeting meeting;
    // By parity of the meeting's round: nobody is two rounds ahead of who still reads.
    alignas(16) std::array<std::byte, kLanes * kSlotBytes> slots[2];
  };

  std::vector<AsyncCopy>& copies_of_thread() { return copies_[static_cast<std::size_t>(thread_)]; }
  Warp& warp() { return warps_[static_cast<std::size_t>(thread_ / kLanes)]; }
  void run_block();
  void meet(Meeting& meeting, int members, const Place& place) {
    if (meeting.arrived++ == 0) {
      meeting.place = place;
    } else if (meeting.place.line != place.line || meeting.place.what != place.what) [[unlikely]] {
      report_elsewhere(meeting.place, place);
    }
    if (meeting.arrived == members) {
      meeting.arrived = 0;
      ++meeting.round;
    } else {
      wait(meeting, place);
    }
  }
  void wait(Meeting& meeting, const Place& place);
  static void fiber_main();
  Fiber& parked_fiber();
  int next_thread() const;  // one that may run; -1: none
  Fiber& fiber_to_run(int thread);
  [[noreturn]] void report_elsewhere(const Place& first, const Place& place) const;
  [[noreturn]] void report_missed() const;

  cuda::LaunchSize size_;
  Kernel kernel_ = nullptr;
  const void* closure_ = nullptr;
  BlockIndex index_ = {};
  int thread_ = 0;
  int direction_ = 1;
  int done_ = 0;
  Meeting meeting_;
  std::vector<Thread> threads_;
  std::vector<std::vector<AsyncCopy>> copies_;  // of each thread, that it has not waited for
  std::vector<Warp> warps_;
  std::unique_ptr<SharedBytes> shared_;
  FiberStacks stacks_;
  Fiber outside_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> parked_;  // fibers without a thread
};

// Null outside kernels. Reached without a call in a shared object too.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Block* current_block;

template <typename T>
Block::Exchanged<T> Block::exchange(const T& value, const Place& place) {
  static_assert(sizeof(T) <= kSlotBytes);
  Warp& warp = this->warp();
  auto& slots = warp.slots[warp.meeting.round % 2];
  std::memcpy(&slots[static_cast<std::size_t>(thread_ % kLanes * kSlotBytes)], &value, sizeof(T));
  meet(warp.meeting, kLanes, place);
  return {slots.data()};
}

}  // namespace strata::cuda_sim
