#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

// With u = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh u) = 1 / (1 + e^-2u), which unlike the left
// side keeps its relative accuracy where tanh u is close to -1. -2u = x (a + b x^2).
constexpr float kGeluA = -1.5957691216057308f;  // -2 sqrt(2/pi)
constexpr float kGeluB = kGeluA * 0.044715f;
constexpr float kExponentMax = 80.0f;  // e^80 is finite, and 1 / e^80 a zero beside any x

STRATA_INLINE F32x16 exp_minus_2u(const F32x16& x, const F32x16& x_squared) {
  const F32x16 exponent = x * (broadcast(kGeluA) + broadcast(kGeluB) * x_squared);
  return exp(min(broadcast(kExponentMax), exponent));
}

template <typename T>
void gelu_forward(void* y, const void* x, std::int64_t elements) {
  const T* input = static_cast<const T*>(x);
  T* output = static_cast<T*>(y);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    const F32x16 v = load(input + i, lanes);
    store(output + i, v / (broadcast(1.0f) + exp_minus_2u(v, v * v)), lanes);
  });
}

// With s = 1 / (1 + e), e = e^-2u: gelu' = s + x s (1 - s) 2u', and 1 - s = e s.
template <typename T>
void gelu_backward(void* dx, const void* dy, const void* x, std::int64_t elements) {
  const T* input = static_cast<const T*>(x);
  const T* gradient = static_cast<const T*>(dy);
  T* output = static_cast<T*>(dx);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    const F32x16 v = load(input + i, lanes);
    const F32x16 squared = v * v;
    const F32x16 e = exp_minus_2u(v, squared);
    const F32x16 s = broadcast(1.0f) / (broadcast(1.0f) + e);
    const F32x16 minus_slope = broadcast(kGeluA) + broadcast(3 * kGeluB) * squared;  // -2u'
    const F32x16 derivative = s - v * s * (e * s) * minus_slope;
    store(output + i, load(gradient + i, lanes) * derivative, lanes);
  });
}

// 1 / sigmoid - 1.
STRATA_INLINE F32x16 exp_minus(const F32x16& x) {
  return exp(min(broadcast(kExponentMax), broadcast(0) - x));
}

// silu(x) = x / (1 + e^-x).
template <typename T>
void swiglu_forward(void* y, const void* gate, const void* up, std::int64_t elements) {
  const T* gates = static_cast<const T*>(gate);
  const T* ups = static_cast<const T*>(up);
  T* output = static_cast<T*>(y);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    const F32x16 g = load(gates + i, lanes);
    const F32x16 silu = g / (broadcast(1.0f) + exp_minus(g));
    store(output + i, silu * load(ups + i, lanes), lanes);
  });
}

// With s = 1 / (1 + e), e = e^-x: silu' = s + x s (1 - s), and 1 - s = e s.
template <typename T>
void swiglu_backward(void* dgate, void* dup, const void* dy, const void* gate, const void* up,
                     std::int64_t elements) {
  const T* gradient = static_cast<const T*>(dy);
  const T* gates = static_cast<const T*>(gate);
  const T* ups = static_cast<const T*>(up);
  T* gate_gradient = static_cast<T*>(dgate);
  T* up_gradient = static_cast<T*>(dup);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    const F32x16 d = load(gradient + i, lanes);
    const F32x16 g = load(gates + i, lanes);
    const F32x16 u = load(ups + i, lanes);
    const F32x16 e = exp_minus(g);
    const F32x16 s = broadcast(1.0f) / (broadcast(1.0f) + e);
    const F32x16 silu = g * s;
    store(gate_gradient + i, d * u * (s + silu * (e * s)), lanes);
    store(up_gradient + i, d * silu, lanes);
  });
}

template <typename T>
void add(void* y, const void* a, const void* b, std::int64_t elements) {
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  T* output = static_cast<T*>(y);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    store(output + i, load(left + i, lanes) + load(right + i, lanes), lanes);
  });
}

template <typename From, typename To>
void convert(void* y, const void* x, std::int64_t elements) {
  const From* input = static_cast<const From*>(x);
  To* output = static_cast<To*>(y);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    store(output + i, load(input + i, lanes), lanes);
  });
}

template <typename T>
void accumulate(float* y, const void* x, std::int64_t elements) {
  const T* input = static_cast<const T*>(x);
  for_each_vector(elements, [&](std::int64_t i, auto lanes) {
    store(y + i, load(y + i, lanes) + load(input + i, lanes), lanes);
  });
}

}  // namespace

constinit const ElementwiseKernels elementwise_kernels = {
    .gelu_forward = {gelu_forward<float>, gelu_forward<bf16>},
    .gelu_backward = {gelu_backward<float>, gelu_backward<bf16>},
    .swiglu_forward = {swiglu_forward<float>, swiglu_forward<bf16>},
    .swiglu_backward = {swiglu_backward<float>, swiglu_backward<bf16>},
    .add = {add<float>, add<bf16>},
    .accumulate = {accumulate<float>, accumulate<bf16>},
    .widen = convert<bf16, float>,
    .round = convert<float, bf16>,
};

}  // namespace strata::ops::cpu::STRATA_ISA
