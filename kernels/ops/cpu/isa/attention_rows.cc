#include "kernels/ops/cpu/attention_kernels.h"
#include "kernels/ops/cpu/isa/rows.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Formats of a row that replaces a row of scores: element type and how a vector is stored.
template <typename T>
struct Store {
  using Element = T;
  template <typename Part>
  STRATA_INLINE static void put(T* to, const F32x16& x, Part part) {
    store(to, x, part);
  }
};
struct StoreBf16InF32 {
  using Element = float;
  template <typename Part>
  STRATA_INLINE static void put(Element* to, const F32x16& x, Part part) {
    bf16 rounded[kLanes];
    store(rounded, x);
    store(to, load(rounded), part);
  }
};

// Columns that a row sees: [begin, end) in [0, cols).
struct Visible {
  std::int64_t begin;
  std::int64_t end;
};

Visible visible_cols(const ScoreTile& tile, std::int64_t row) {
  const std::int64_t causal_end = tile.visible + row;
  const std::int64_t end = causal_end < tile.cols ? causal_end : tile.cols;
  std::int64_t begin = 0;
  if (tile.window > 0 && begin < causal_end - tile.window) begin = causal_end - tile.window;
  if (tile.document_starts != nullptr) {
    const std::int64_t start = tile.document_starts[row] - tile.first_key;
    if (begin < start) begin = start;
  }
  return {begin < end ? begin : end, end};
}

template <typename Element>
void zero(Element* row, std::int64_t from, std::int64_t to) {
  if (from < to) __builtin_memset(row + from, 0, static_cast<std::size_t>(to - from) * sizeof *row);
}

float largest_of(const float* x, std::int64_t elements) {
  F32x16 largest_lanes = broadcast(kMinusInfinity);
  for_each_vector(elements, [&](std::int64_t i, auto part) {
    largest_lanes = max(largest_lanes, load(x + i, part, kMinusInfinity));
  });
  return largest(largest_lanes);
}

float exp_of(float x) { return exp(broadcast(x)).part[0][0]; }

template <typename Format>
void softmax_rows(const ScoreTile& tile, float* max, float* sums, float* out,
                  std::int64_t head_dim) {
  const F32x16 scale = broadcast(tile.scale);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* scores = tile.scores + row * tile.stride;
    auto* probabilities =
        reinterpret_cast<typename Format::Element*>(tile.scores + row * tile.stride);
    const auto [begin, end] = visible_cols(tile, row);
    if (begin == end) {
      zero(probabilities, 0, tile.cols);
      continue;
    }
    const float tile_max = largest_of(scores + begin, end - begin) * tile.scale;
    const float new_max = max[row] > tile_max ? max[row] : tile_max;
    const float rescale = exp_of(max[row] - new_max);

    const F32x16 shift = broadcast(new_max);
    F32x16 sum_lanes = broadcast(0.0f);
    for_each_vector(end - begin, [&](std::int64_t i, auto part) {
      const F32x16 p = exp(load(scores + begin + i, part, kMinusInfinity) * scale - shift);
      sum_lanes = sum_lanes + p;
      Format::put(probabilities + begin + i, p, part);
    });
    zero(probabilities, 0, begin);
    zero(probabilities, end, tile.cols);

    max[row] = new_max;
    sums[row] = sums[row] * rescale + sum(sum_lanes);
    float* out_row = out + row * head_dim;
    const F32x16 out_scale = broadcast(rescale);
    for_each_vector(head_dim, [&](std::int64_t i, auto part) {
      store(out_row + i, load(out_row + i, part) * out_scale, part);
    });
  }
}

template <typename Format>
void softmax_backward_rows(const ScoreTile& tile, float* dprobabilities, const float* log_sum_exp,
                           const float* row_dots) {
  using Element = typename Format::Element;
  const F32x16 scale = broadcast(tile.scale);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* scores = tile.scores + row * tile.stride;
    const float* gradients = dprobabilities + row * tile.stride;
    auto* p_row = reinterpret_cast<Element*>(tile.scores + row * tile.stride);
    auto* ds_row = reinterpret_cast<Element*>(dprobabilities + row * tile.stride);
    const auto [begin, end] = visible_cols(tile, row);
    const F32x16 shift = broadcast(log_sum_exp[row]);
    const F32x16 dot = broadcast(row_dots[row]);
    for_each_vector(end - begin, [&](std::int64_t i, auto part) {
      const F32x16 p = exp(load(scores + begin + i, part) * scale - shift);
      const F32x16 ds = p * (load(gradients + begin + i, part) - dot);
      Format::put(p_row + begin + i, p, part);
      Format::put(ds_row + begin + i, ds, part);
    });
    for (Element* results : {p_row, ds_row}) {
      zero(results, 0, begin);
      zero(results, end, tile.cols);
    }
  }
}

void softmax(const ScoreTile& tile, float* max, float* sum, float* out, std::int64_t head_dim) {
  switch (tile.format) {
    case ScoreFormat::f32:
      return softmax_rows<Store<float>>(tile, max, sum, out, head_dim);
    case ScoreFormat::bf16:
      return softmax_rows<Store<bf16>>(tile, max, sum, out, head_dim);
    case ScoreFormat::bf16_in_f32:
      return softmax_rows<StoreBf16InF32>(tile, max, sum, out, head_dim);
  }
}

void softmax_backward(const ScoreTile& tile, float* dprobabilities, const float* log_sum_exp,
                      const float* row_dots) {
  switch (tile.format) {
    case ScoreFormat::f32:
      return softmax_backward_rows<Store<float>>(tile, dprobabilities, log_sum_exp, row_dots);
    case ScoreFormat::bf16:
      return softmax_backward_rows<Store<bf16>>(tile, dprobabilities, log_sum_exp, row_dots);
    case ScoreFormat::bf16_in_f32:
      return softmax_backward_rows<StoreBf16InF32>(tile, dprobabilities, log_sum_exp, row_dots);
  }
}

template <typename T>
void scale_rows(const Matrix& to, const float* from, float scale, const float* divisors) {
  for (std::int64_t row = 0; row < to.rows; ++row) {
    const F32x16 factor = broadcast(divisors == nullptr ? scale : scale / divisors[row]);
    const float* x = from + row * to.cols;
    T* y = row_of<T>(to, row);
    for_each_vector(to.cols, [&](std::int64_t i, auto part) {
      store(y + i, load(x + i, part) * factor, part);
    });
  }
}

template <typename T>
void row_dots(float* dots, const Matrix& a, const Matrix& b) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const T* x = row_of<T>(a, row);
    const T* y = row_of<T>(b, row);
    F32x16 lanes = broadcast(0.0f);
    for_each_vector(a.cols, [&](std::int64_t i, auto part) {
      lanes = lanes + load(x + i, part) * load(y + i, part);
    });
    dots[row] = sum(lanes);
  }
}

}  // namespace

const AttentionKernels attention_kernels = {
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .scale = {scale_rows<float>, scale_rows<bf16>},
    .row_dots = {row_dots<float>, row_dots<bf16>},
};

}  // namespace strata::ops::cpu::STRATA_ISA
