#include "cuda_sim/fiber.h"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "cuda_sim/report.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what a call must keep, and the stack pointer in *from; goes on where `to` was saved.
extern "C" void strata_cuda_sim_switch(void** from, void* to);
asm(R"(
.text
.globl strata_cuda_sim_switch
.hidden strata_cuda_sim_switch
.type strata_cuda_sim_switch, @function
strata_cuda_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size strata_cuda_sim_switch, .-strata_cuda_sim_switch
)");

namespace strata::cuda_sim {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kAlternateStackBytes = 64 * 1024;
constexpr std::size_t kStrideBytes = kGuardBytes + kFiberStackBytes;

constinit thread_local Fiber* from_fiber = nullptr;  // of the last switch
constinit thread_local Fiber* to_fiber = nullptr;
constinit thread_local const char* stacks_begin = nullptr;
constinit thread_local const char* stacks_end = nullptr;

// A fault of a full stack cannot be handled on that stack.
void have_alternate_stack() {
  thread_local std::unique_ptr<char[]> memory;
  stack_t current = {};
  ::sigaltstack(nullptr, &current);
  if ((current.ss_flags & SS_DISABLE) == 0) return;
  memory = std::make_unique<char[]>(kAlternateStackBytes);
  const stack_t alternate = {memory.get(), 0, kAlternateStackBytes};
  ::sigaltstack(&alternate, nullptr);
}

}  // namespace

Fiber::Fiber(void* stack, Entry entry)
    : entry_(entry), stack_(stack), stack_bytes_(kFiberStackBytes) {
  // As if it had left from the first instruction of begin(): six registers, then the return
  // address.
  void** const top = reinterpret_cast<void**>(static_cast<char*>(stack) + kFiberStackBytes);
  std::memset(top - 8, 0, 8 * sizeof(void*));
  top[-2] = reinterpret_cast<void*>(&Fiber::begin);
  stack_pointer_ = top - 8;
}

void Fiber::arrived([[maybe_unused]] void* fake_stack) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, &from_fiber->stack_, &from_fiber->stack_bytes_);
#endif
}

void Fiber::begin() {
  arrived(nullptr);
  to_fiber->entry_();
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  from_fiber = &from;
  to_fiber = &to;
  void* fake_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack, to.stack_, to.stack_bytes_);
#endif
  strata_cuda_sim_switch(&from.stack_pointer_, to.stack_pointer_);
  arrived(fake_stack);
}

FiberStacks::FiberStacks(int count) : bytes_(static_cast<std::size_t>(count) * kStrideBytes) {
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) report("mmap of {} stacks: {}", count, std::strerror(errno));
  memory_ = static_cast<char*>(memory);
  stacks_begin = memory_;
  stacks_end = memory_ + bytes_;
  have_alternate_stack();
}

FiberStacks::~FiberStacks() {
  stacks_begin = stacks_end = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_, bytes_);  // frames that never returned
#endif
  ::munmap(memory_, bytes_);
}

void* FiberStacks::open(int i) {
  char* const stack = memory_ + static_cast<std::size_t>(i) * kStrideBytes + kGuardBytes;
  if (::mprotect(stack, kFiberStackBytes, PROT_READ | PROT_WRITE) != 0) {
    report("mprotect of a stack: {}", std::strerror(errno));
  }
  return stack;
}

bool is_stack_guard(const void* address) {
  const char* const at = static_cast<const char*>(address);
  return std::less_equal<>()(stacks_begin, at) && std::less<>()(at, stacks_end) &&
         static_cast<std::size_t>(at - stacks_begin) % kStrideBytes < kGuardBytes;
}

}  // namespace strata::cuda_sim
