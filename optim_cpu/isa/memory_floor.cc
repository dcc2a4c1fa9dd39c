// Loads and stores of a state without the update's arithmetic. The scales of moments in int8, 1/64
// of their elements, are left out.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa/prefetch.h"

namespace strata::optim::STRATA_ISA {
namespace {

struct Stream {
  std::uint8_t* data;
  std::int64_t element_bytes;
};

std::uint8_t load_all(const Stream& stream, std::int64_t begin, std::int64_t end) {
  const std::int64_t last = end * stream.element_bytes;
  std::uint8_t all = 0;
  for (std::int64_t i = begin * stream.element_bytes; i < last; ++i) all |= stream.data[i];
  return all;
}

void load_and_store(const Stream& stream, std::uint8_t bits, std::int64_t begin, std::int64_t end) {
  const std::int64_t last = end * stream.element_bytes;
#pragma GCC ivdep
  for (std::int64_t i = begin * stream.element_bytes; i < last; ++i) stream.data[i] |= bits;
}

void touch(const Stream& gradient, std::span<const Stream> written, std::int64_t elements,
           std::uint8_t mask) {
  for (std::int64_t begin = 0; begin < elements; begin += kBlockElements) {
    const std::int64_t end = std::min(begin + kBlockElements, elements);
    const std::int64_t ahead = end + kPrefetchElements;
    const auto prefetch_part = [&](const Stream& stream) {
      prefetch_bytes(stream.data, (ahead - kBlockElements) * stream.element_bytes,
                     ahead * stream.element_bytes);
    };
    if (ahead <= elements) {
      std::for_each(written.begin(), written.end(), prefetch_part);
      prefetch_part(gradient);
    }
    // With a mask of 0, nothing changes; the compiler cannot know.
    const std::uint8_t bits = load_all(gradient, begin, end) & mask;
    for (const Stream& stream : written) load_and_store(stream, bits, begin, end);
  }
}

void touch_state(const State& state, std::uint8_t mask) {
  const bool split = state.remainder != nullptr;
  const std::int64_t value_bytes = moment_bytes(state.moments);
  std::array<Stream, 4> written;
  std::size_t count = 0;
  const auto add = [&](void* data, std::int64_t element_bytes) {
    if (data != nullptr) written[count++] = {static_cast<std::uint8_t*>(data), element_bytes};
  };
  add(state.weight, split ? 2 : 4);
  add(state.remainder, 2);
  add(state.moment1.values, value_bytes);
  add(state.moment2.values, value_bytes);
  auto* const gradient = static_cast<std::uint8_t*>(const_cast<void*>(state.gradient));
  touch({gradient, bytes_of(state.gradient_dtype)}, std::span(written).first(count), state.elements,
        mask);
}

}  // namespace

const TouchState kTouchState = touch_state;

}  // namespace strata::optim::STRATA_ISA
