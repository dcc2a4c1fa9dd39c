// InplaceFunction: a move-only void() callable stored inside the object, never on the heap, so that
// queues of them work in a step loop that allocates nothing. A callable that is too large is a
// compile error: capture pointers and numbers, not objects.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace strata {

template <std::size_t kCapacityBytes>
class InplaceFunction {
 public:
  InplaceFunction() = default;

  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, InplaceFunction>)
      InplaceFunction(F&& f) {  // NOLINT(google-explicit-constructor): callables convert
    using Callable = std::decay_t<F>;
    static_assert(sizeof(Callable) <= kCapacityBytes, "captures too much for an InplaceFunction");
    static_assert(alignof(Callable) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<Callable>);
    new (storage_) Callable(std::forward<F>(f));
    call_ = [](void* self) { (*static_cast<Callable*>(self))(); };
    relocate_ = [](void* from, void* to) noexcept {
      auto* source = static_cast<Callable*>(from);
      if (to != nullptr) new (to) Callable(std::move(*source));
      source->~Callable();
    };
  }

  InplaceFunction(InplaceFunction&& other) noexcept { take(other); }
  InplaceFunction& operator=(InplaceFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~InplaceFunction() { reset(); }

  explicit operator bool() const { return call_ != nullptr; }
  void operator()() { call_(storage_); }

 private:
  void reset() noexcept {
    if (relocate_ != nullptr) relocate_(storage_, nullptr);
    call_ = nullptr;
    relocate_ = nullptr;
  }
  void take(InplaceFunction& other) noexcept {
    if (other.call_ == nullptr) return;
    other.relocate_(other.storage_, storage_);
    call_ = std::exchange(other.call_, nullptr);
    relocate_ = std::exchange(other.relocate_, nullptr);
  }

  alignas(std::max_align_t) std::byte storage_[kCapacityBytes];
  void (*call_)(void*) = nullptr;
  void (*relocate_)(void* from, void* to) noexcept = nullptr;
};

}  // namespace strata
