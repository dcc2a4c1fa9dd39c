// Sixteen f32 lanes, the unit of every elementwise loop and reduction of the CPU ops.
//
// The file is compiled once per instruction set; STRATA_ISA is the namespace. F32x16 is one, two or
// four native vectors, so the lanes, the operations and their order are the same everywhere. With
// -ffp-contract=off, so are the bits.
//
// Rule for files in isa/: call nothing inline from outside this namespace (no std:: templates, no
// dtype.h conversions, no STRATA_CHECK). The linker keeps one copy of such a function, and that
// copy may use an instruction set that the machine lacks.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace strata::ops::cpu::STRATA_ISA {

inline constexpr std::int64_t kLanes = 16;

#if defined(__AVX512F__)
inline constexpr int kNativeLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kNativeLanes = 8;
#else
inline constexpr int kNativeLanes = 4;
#endif
inline constexpr int kParts = kLanes / kNativeLanes;

using NativeF32 [[gnu::vector_size(kNativeLanes * 4)]] = float;
using NativeU32 [[gnu::vector_size(kNativeLanes * 4)]] = std::uint32_t;
using NativeU16 [[gnu::vector_size(kNativeLanes * 2)]] = std::uint16_t;

struct F32x16 {
  NativeF32 part[kParts];
};

#define STRATA_INLINE [[gnu::always_inline]] inline

// f applied to each native part.
template <typename F, typename... Vectors>
STRATA_INLINE F32x16 map(F f, const Vectors&... x) {
  F32x16 y;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) y.part[i] = f(x.part[i]...);
  return y;
}

STRATA_INLINE F32x16 operator+(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x + y; }, a, b);
}
STRATA_INLINE F32x16 operator-(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x - y; }, a, b);
}
STRATA_INLINE F32x16 operator*(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x * y; }, a, b);
}
STRATA_INLINE F32x16 operator/(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x / y; }, a, b);
}
// A NaN in `a` is lost, one in `b` is kept.
STRATA_INLINE F32x16 max(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x > y ? x : y; }, a, b);
}
STRATA_INLINE F32x16 min(const F32x16& a, const F32x16& b) {
  return map([](NativeF32 x, NativeF32 y) { return x < y ? x : y; }, a, b);
}

STRATA_INLINE F32x16 broadcast(float x) {
  F32x16 y;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) y.part[i] = NativeF32{} + x;
  return y;
}

// ---- memory: no alignment is needed

STRATA_INLINE F32x16 load(const float* x) {
  F32x16 y;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(&y.part[i], x + i * kNativeLanes, sizeof y.part[i]);
  }
  return y;
}
STRATA_INLINE F32x16 load(const bf16* x) {
  F32x16 y;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    NativeU16 half;
    __builtin_memcpy(&half, x + i * kNativeLanes, sizeof half);
    y.part[i] = reinterpret_cast<NativeF32>(__builtin_convertvector(half, NativeU32) << 16);
  }
  return y;
}

STRATA_INLINE void store(float* y, const F32x16& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(y + i * kNativeLanes, &x.part[i], sizeof x.part[i]);
  }
}

// Round to nearest, ties to even; a NaN stays a quiet NaN: the bits of to_bf16_nearest_even().
STRATA_INLINE void store(bf16* y, const F32x16& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const auto bits = reinterpret_cast<NativeU32>(x.part[i]);
    const NativeU32 upper = bits >> 16;
    const NativeU32 rounded = (bits + 0x7FFFu + (upper & 1u)) >> 16;
    const NativeU32 selected = x.part[i] == x.part[i] ? rounded : upper | 0x40u;
    const NativeU16 half = __builtin_convertvector(selected, NativeU16);
    __builtin_memcpy(y + i * kNativeLanes, &half, sizeof half);
  }
}

// The end of a row: the first `lanes` < 16 lanes; the others read as `fill` and are not written.
struct Tail {
  std::int64_t lanes;
};
// A whole vector, where a loop's body is also compiled for a Tail.
struct Full {};

template <typename T>
STRATA_INLINE F32x16 load(const T* x, Full, float /*fill*/ = 0) {
  return load(x);
}
STRATA_INLINE F32x16 load(const float* x, Tail tail, float fill = 0) {
  float lanes[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) lanes[i] = i < tail.lanes ? x[i] : fill;
  return load(lanes);
}
STRATA_INLINE F32x16 load(const bf16* x, Tail tail, float fill = 0) {
  float lanes[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) {
    lanes[i] = i < tail.lanes ? __builtin_bit_cast(float, std::uint32_t{x[i].bits} << 16) : fill;
  }
  return load(lanes);
}
template <typename T>
STRATA_INLINE void store(T* y, const F32x16& x, Full) {
  store(y, x);
}
template <typename T>
STRATA_INLINE void store(T* y, const F32x16& x, Tail tail) {
  T lanes[kLanes];
  store(lanes, x);
  for (std::int64_t i = 0; i < tail.lanes; ++i) y[i] = lanes[i];
}

// body(i, Full{}) for i = 0, 16, …, then body(i, Tail{rest}) if elements are left.
template <typename Body>
STRATA_INLINE void for_each_vector(std::int64_t elements, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) body(i, Full{});
  if (i < elements) body(i, Tail{elements - i});
}

// ---- across lanes, in a fixed tree: l with l + 8, then l + 4, l + 2, l + 1

template <typename Combine>
STRATA_INLINE float reduce(const F32x16& x, Combine combine) {
  using F32x4 [[gnu::vector_size(16)]] = float;
  F32x4 quarter[4];
  __builtin_memcpy(quarter, &x, sizeof quarter);
  const F32x4 y = combine(combine(quarter[0], quarter[2]), combine(quarter[1], quarter[3]));
  return combine(combine(y[0], y[2]), combine(y[1], y[3]));
}
STRATA_INLINE float sum(const F32x16& x) {
  return reduce(x, [](auto a, auto b) { return a + b; });
}
STRATA_INLINE float largest(const F32x16& x) {
  return reduce(x, [](auto a, auto b) { return a > b ? a : b; });
}

// ---- functions

// e^x within 1 ulp for results that are normal numbers; below that 0 (so exp(-inf) is 0), above
// FLT_MAX +inf; NaN stays NaN. x = n·ln 2 + r with |r| <= ln(2)/2, e^r by the degree-5 minimax
// polynomial and the two-part ln 2 of Cephes' expf (Moshier 1992), times 2^n in two factors, since
// n = 128 is no exponent of an f32.
STRATA_INLINE NativeF32 exp_part(NativeF32 x) {
  constexpr float kLowest = -87.33654f;           // ln FLT_MIN, rounded up
  constexpr float kHighest = 88.72284f;           // ln FLT_MAX, rounded up
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5·2^23: the sum's low bits are the integer
  const NativeF32 lowest = NativeF32{} + kLowest;
  const NativeF32 highest = NativeF32{} + kHighest;
  NativeF32 clamped = x < lowest ? lowest : x;
  clamped = clamped > highest ? highest : clamped;

  const NativeF32 shifted = clamped * 1.44269504088896341f + kRoundToInteger;
  const NativeF32 n = shifted - kRoundToInteger;
  const NativeF32 r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;

  NativeF32 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;

  // shifted's bits are those of 1.5·2^23 plus n; n + 254 = a + b with both halves in [1, 254].
  const NativeU32 biased = reinterpret_cast<NativeU32>(shifted) - 0x4B400000u + 254u;
  const NativeU32 a = biased >> 1;
  const NativeU32 b = biased - a;
  NativeF32 y = p * reinterpret_cast<NativeF32>(a << 23) * reinterpret_cast<NativeF32>(b << 23);
  y = x < lowest ? NativeF32{} : y;
  return x >= highest ? NativeF32{} + __builtin_inff() : y;
}
STRATA_INLINE F32x16 exp(const F32x16& x) {
  return map([](NativeF32 v) { return exp_part(v); }, x);
}

}  // namespace strata::ops::cpu::STRATA_ISA
