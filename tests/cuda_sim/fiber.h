// Fibers: threads of a simulated block, which take turns on one thread of the process. A switch is
// a few stores. A fiber never leaves the thread that made it. x86-64, as the instruction sets that
// the program is built for.
//
// ThreadSanitizer is not told: to it, all fibers are their one thread, and only the stacks that it
// reports beyond the first frame are another fiber's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cuda_sim {

inline constexpr std::size_t kFiberStackBytes = 128 * 1024;

class Fiber {
 public:
  using Entry = void (*)();

  Fiber() = default;                // of the calling thread, on its own stack
  Fiber(void* stack, Entry entry);  // of kFiberStackBytes; `entry` never returns
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, which runs, for `to`; comes back when somebody switches to `from`.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  static void begin();
  static void arrived(void* fake_stack);
  void* stack_pointer_ = nullptr;
  Entry entry_ = nullptr;
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
};

// The stacks of one thread's fibers, each above an inaccessible page. Also sees to it that the
// thread can handle a fault of a full stack.
class FiberStacks {
 public:
  explicit FiberStacks(int count);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  void* open(int i);  // once, before its use

 private:
  char* memory_;
  std::size_t bytes_;
};

// Of this thread's fibers. For the handler of faults.
bool is_stack_guard(const void* address);

}  // namespace strata::cuda_sim
