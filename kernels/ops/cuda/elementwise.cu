#include "kernels/ops/cuda/elementwise.h"

#include <cmath>

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {
namespace {

// With u = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh u) = 1 / (1 + e^-2u), which unlike the left
// side keeps its relative accuracy where tanh u is close to -1. -2u = x (a + b x^2).
constexpr float kGeluA = -1.5957691216057308f;  // -2 sqrt(2/pi)
constexpr float kGeluB = kGeluA * 0.044715f;
constexpr float kExponentMax = 80.0f;  // e^80 is finite, and 1 / e^80 a zero beside any x

// A NaN stays one.
__device__ float bounded_exp(float x) { return expf(x > kExponentMax ? kExponentMax : x); }

struct GeluForward {
  static constexpr int kOutputs = 1, kInputs = 1;
  __device__ static void apply(float (&y)[1], const float (&in)[1]) {
    const float x = in[0];
    y[0] = x / (1.0f + bounded_exp(x * (kGeluA + kGeluB * (x * x))));
  }
};

// With s = 1 / (1 + e), e = e^-2u: gelu' = s + x s (1 - s) 2u', and 1 - s = e s.
struct GeluBackward {
  static constexpr int kOutputs = 1, kInputs = 2;
  __device__ static void apply(float (&dx)[1], const float (&in)[2]) {
    const auto [dy, x] = in;
    const float squared = x * x;
    const float e = bounded_exp(x * (kGeluA + kGeluB * squared));
    const float s = 1.0f / (1.0f + e);
    const float minus_slope = kGeluA + 3 * kGeluB * squared;  // -2u'
    dx[0] = dy * (s - x * s * (e * s) * minus_slope);
  }
};

struct SwigluForward {
  static constexpr int kOutputs = 1, kInputs = 2;
  __device__ static void apply(float (&y)[1], const float (&in)[2]) {
    const auto [gate, up] = in;
    y[0] = gate / (1.0f + bounded_exp(-gate)) * up;
  }
};

// With s = 1 / (1 + e), e = e^-x: silu' = s + x s (1 - s), and 1 - s = e s.
struct SwigluBackward {
  static constexpr int kOutputs = 2, kInputs = 3;
  __device__ static void apply(float (&out)[2], const float (&in)[3]) {
    const auto [dy, gate, up] = in;
    const float e = bounded_exp(-gate);
    const float s = 1.0f / (1.0f + e);
    const float silu = gate * s;
    out[0] = dy * up * (s + silu * (e * s));
    out[1] = dy * silu;
  }
};

struct Add {
  static constexpr int kOutputs = 1, kInputs = 2;
  __device__ static void apply(float (&y)[1], const float (&in)[2]) { y[0] = in[0] + in[1]; }
};

template <typename T, int kCount>
struct Operands {
  Rows<T> at[kCount];
};

// Floor: one read of each input and one write of each output, over the bandwidth. Outputs may be
// inputs: a thread reads its elements before it writes them.
template <typename T, typename Function>
__global__ void elementwise(PieceGrid grid, Operands<T, Function::kOutputs> outputs,
                            Operands<const T, Function::kInputs> inputs) {
  constexpr int kColumns = kPieceColumns<T>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto extent) {
    Piece<kColumns> in[Function::kInputs];
    Piece<kColumns> out[Function::kOutputs];
#pragma unroll
    for (int k = 0; k < Function::kInputs; ++k) {
      in[k] = load_piece<kColumns>(inputs.at[k].at(row, column), extent);
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      float x[Function::kInputs];
      float y[Function::kOutputs];
#pragma unroll
      for (int k = 0; k < Function::kInputs; ++k) x[k] = in[k].at[i];
      Function::apply(y, x);
#pragma unroll
      for (int k = 0; k < Function::kOutputs; ++k) out[k].at[i] = y[k];
    }
#pragma unroll
    for (int k = 0; k < Function::kOutputs; ++k) {
      store_piece(outputs.at[k].at(row, column), out[k], extent);
    }
  });
}

template <typename Function>
void run(const char* op, cudaStream_t stream, const Matrix (&outputs)[Function::kOutputs],
         const Matrix (&inputs)[Function::kInputs]) {
  const Matrix& shape = outputs[0];
  bool dense = true, vectors = true;
  const auto look_at = [&](const Matrix& operand) {
    dense = dense && operand.stride == operand.cols;
    vectors = vectors && allow_vectors(operand);
  };
  for (const Matrix& output : outputs) look_at(output);
  for (const Matrix& input : inputs) look_at(input);
  PieceGrid grid{shape.rows, shape.cols, vectors};
  if (dense) grid = {1, shape.rows * shape.cols, vectors};

  with_type(shape.dtype, [&]<typename T>() {
    Operands<T, Function::kOutputs> y;
    Operands<const T, Function::kInputs> x;
    for (int k = 0; k < Function::kOutputs; ++k) y.at[k] = rows_of<T>(outputs[k]);
    for (int k = 0; k < Function::kInputs; ++k) x.at[k] = rows_of<const T>(inputs[k]);
    launch_pieces<kPieceColumns<T>>(op, stream, grid, elementwise<T, Function>, y, x);
  });
}

}  // namespace

void gelu_forward(cudaStream_t stream, const Matrix& y, const Matrix& x) {
  run<GeluForward>("gelu_forward", stream, {y}, {x});
}

void gelu_backward(cudaStream_t stream, const Matrix& dx, const Matrix& dy, const Matrix& x) {
  run<GeluBackward>("gelu_backward", stream, {dx}, {dy, x});
}

void swiglu_forward(cudaStream_t stream, const Matrix& y, const Matrix& gate, const Matrix& up) {
  run<SwigluForward>("swiglu_forward", stream, {y}, {gate, up});
}

void swiglu_backward(cudaStream_t stream, const Matrix& dgate, const Matrix& dup, const Matrix& dy,
                     const Matrix& gate, const Matrix& up) {
  run<SwigluBackward>("swiglu_backward", stream, {dgate, dup}, {dy, gate, up});
}

void add(cudaStream_t stream, const Matrix& y, const Matrix& a, const Matrix& b) {
  run<Add>("add", stream, {y}, {a, b});
}

}  // namespace strata::ops::cuda
