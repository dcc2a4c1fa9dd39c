#include "kernels/ops/cpu/bf16_gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

// GCC 12 takes the undefined vectors in its own intrinsics for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

// Only functions of this file may have the target, and they call nothing inline from elsewhere: the
// linker keeps one copy of such a function, which every machine must run.
#define STRATA_BF16_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))
#define STRATA_BF16_INLINE __attribute__((always_inline)) inline STRATA_BF16_TARGET

namespace strata::ops::cpu {
namespace {

constexpr int kLanes = 16;
constexpr __mmask16 kAllLanes = 0xFFFF;
constexpr int kRows = 6;     // of a register block
constexpr int kVectors = 4;  // of 16 columns, of a register block
constexpr std::int64_t kPanelCols = std::int64_t{kVectors} * kLanes;
constexpr std::int64_t kDepth = 768;  // most of k at a time
constexpr std::int64_t kPackedPairs = 16;
constexpr std::int64_t kTileRowsMax = 256;
constexpr std::int64_t kTileColsMax = 512;

// Scratch: a panel of B, A if it is transposed, sums of a bf16 C that k comes to in pieces.
constexpr std::int64_t kPanelBytes = kDepth * kPanelCols * 2;
constexpr std::int64_t kPackedABytes = kDepth * kTileRowsMax * 2;
constexpr std::int64_t kSumsBytes = kTileRowsMax * kTileColsMax * 4;
static_assert(kPanelBytes + kPackedABytes + kSumsBytes <= kGemmScratchpadBytes);

// Two neighbours in k: what one lane of VDPBF16PS multiplies.
using Pair = std::uint32_t;

enum class Results : std::uint8_t { sums, f32, bf16 };

// A register block: rows of A against a panel of B.
struct Block {
  const std::byte* a = nullptr;
  std::int64_t a_row_bytes = 0;  // of a plain A; a packed one has the rows of a pair side by side
  const Pair* b = nullptr;       // (pairs, vectors, 16)
  std::int64_t pairs = 0;
  float* sums = nullptr;
  std::int64_t sums_stride = 0;
  bool add_sums = false;  // to what is there
  Results results = Results::sums;
  std::byte* c = nullptr;
  std::int64_t c_row_bytes = 0;
  bool add_bf16 = false;                // to a bf16 C
  const std::uint16_t* bias = nullptr;  // of its columns, or null
  __mmask16 masks[kVectors] = {};       // columns that C has
};

STRATA_BF16_INLINE __m512 widen(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

template <int rows, int vectors, bool packed_a>
STRATA_BF16_TARGET void multiply_block(const Block& block) {
  __m512 sums[rows][vectors];
  const std::int64_t row_bytes = packed_a ? std::int64_t{sizeof(Pair)} : block.a_row_bytes;
  constexpr std::int64_t kStep = packed_a ? rows * std::int64_t{sizeof(Pair)} : sizeof(Pair);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = block.add_sums
                       ? _mm512_maskz_loadu_ps(block.masks[v],
                                               block.sums + r * block.sums_stride + v * kLanes)
                       : _mm512_setzero_ps();
    }
  }
  const std::byte* a = block.a;
  const Pair* b = block.b;
  for (std::int64_t pair = 0; pair < block.pairs; ++pair) {
    __m512bh columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      columns[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + v * kLanes));
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      int bits;
      __builtin_memcpy(&bits, a + r * row_bytes, sizeof bits);
      const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], columns[v], factor);
      }
    }
    a += kStep;
    b += vectors * kLanes;
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    const __mmask16 mask = block.masks[v];
    __m512 bias = _mm512_setzero_ps();
    if (block.bias != nullptr) {
      bias = widen(_mm256_maskz_loadu_epi16(mask, block.bias + v * kLanes));
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      if (block.results == Results::sums) {
        _mm512_mask_storeu_ps(block.sums + r * block.sums_stride + v * kLanes, mask, sums[r][v]);
        continue;
      }
      __m512 result = sums[r][v];
      if (block.bias != nullptr) result = _mm512_add_ps(result, bias);
      std::byte* const c_row = block.c + r * block.c_row_bytes;
      if (block.results == Results::f32) {
        _mm512_mask_storeu_ps(reinterpret_cast<float*>(c_row) + v * kLanes, mask, result);
        continue;
      }
      auto* const to = reinterpret_cast<std::uint16_t*>(c_row) + v * kLanes;
      if (block.add_bf16) {
        result = _mm512_add_ps(result, widen(_mm256_maskz_loadu_epi16(mask, to)));
      }
      const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(result));
      if (mask == kAllLanes) {  // many times as fast
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded);
      } else {
        _mm256_mask_storeu_epi16(to, mask, rounded);
      }
    }
  }
}

using MultiplyBlock = void (*)(const Block&);

template <bool packed_a, int... index>
constexpr auto block_table(std::integer_sequence<int, index...>) {
  return std::array<MultiplyBlock, sizeof...(index)>{
      multiply_block<index / kVectors + 1, index % kVectors + 1, packed_a>...};
}
constexpr auto kPlain = block_table<false>(std::make_integer_sequence<int, kRows * kVectors>());
constexpr auto kPacked = block_table<true>(std::make_integer_sequence<int, kRows * kVectors>());

MultiplyBlock block_of(bool packed_a, std::int64_t rows, std::int64_t vectors) {
  const auto index = static_cast<std::size_t>((rows - 1) * kVectors + vectors - 1);
  return packed_a ? kPacked[index] : kPlain[index];
}

STRATA_BF16_INLINE __mmask16 first_lanes(std::int64_t lanes) {
  if (lanes <= 0) return 0;
  return static_cast<__mmask16>(lanes >= kLanes ? 0xFFFF : (1 << lanes) - 1);
}

// Rows k of B (plain) to `to` (pairs, vectors, 16); columns that B lacks become 0.
STRATA_BF16_TARGET void pack_plain_b(Pair* to, const std::uint16_t* b, std::int64_t stride,
                                     std::int64_t pairs, std::int64_t cols, std::int64_t vectors) {
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::uint16_t* const row = b + 2 * pair * stride;
    for (std::int64_t v = 0; v < vectors; ++v) {
      const __mmask16 mask = first_lanes(cols - v * kLanes);
      const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row + v * kLanes));
      const __m512i odd =
          _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row + stride + v * kLanes));
      _mm512_storeu_si512(to + (pair * vectors + v) * kLanes,
                          _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
    }
  }
}

// x[i] lane j becomes x[j] lane i.
STRATA_BF16_INLINE void transpose(__m512i (&x)[kLanes]) {
  __m512i y[kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    y[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xDD);
    y[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    y[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
    x[i + 4] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0x88);
    x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xDD);
    x[i + 12] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0xDD);
  }
}

// The same of a B whose columns lie in rows of memory.
STRATA_BF16_TARGET void pack_transposed_b(Pair* to, const std::uint16_t* b, std::int64_t stride,
                                          std::int64_t pairs, std::int64_t cols,
                                          std::int64_t vectors) {
  for (std::int64_t v = 0; v < vectors; ++v) {
    const std::int64_t present = cols - v * kLanes;
    for (std::int64_t first = 0; first < pairs; first += kLanes) {
      const std::int64_t count = pairs - first < kLanes ? pairs - first : kLanes;
      const __mmask16 mask = first_lanes(count);
      __m512i x[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        x[i] = i < present
                   ? _mm512_maskz_loadu_epi32(mask, b + (v * kLanes + i) * stride + 2 * first)
                   : _mm512_setzero_si512();
      }
      transpose(x);
      Pair* const rows = to + (first * vectors + v) * kLanes;
      if (count == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) _mm512_storeu_si512(rows + i * vectors * kLanes, x[i]);
      } else {
        for (int i = 0; i < count; ++i) _mm512_storeu_si512(rows + i * vectors * kLanes, x[i]);
      }
    }
  }
}

// Rows of A from the rows k of its transpose: for a register block (pairs, rows).
STRATA_BF16_TARGET void pack_transposed_a(Pair* to, const std::uint16_t* a, std::int64_t stride,
                                          std::int64_t pairs, std::int64_t rows) {
  const auto mask = static_cast<__mmask8>((1 << rows) - 1);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const __m128i even = _mm_maskz_loadu_epi16(mask, a + 2 * pair * stride);
    const __m128i odd = _mm_maskz_loadu_epi16(mask, a + (2 * pair + 1) * stride);
    const __m256i both = _mm256_or_si256(_mm256_cvtepu16_epi32(even),
                                         _mm256_slli_epi32(_mm256_cvtepu16_epi32(odd), 16));
    if (pair + 1 < pairs) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + pair * rows), both);  // the next cuts it
    } else {
      _mm256_mask_storeu_epi32(to + pair * rows, mask, both);
    }
  }
}

// Rows of A in register blocks of nearly equal heights.
struct RowBlocks {
  explicit RowBlocks(std::int64_t rows) : rows(rows), count(ceil_div(rows, std::int64_t{kRows})) {}
  std::int64_t begin(std::int64_t block) const { return block * rows / count; }
  std::int64_t rows;
  std::int64_t count;
};

// Some pairs at a time: a cache line has columns of several blocks.
void pack_a(Pair* to, const RowBlocks& blocks, const std::uint16_t* a, std::int64_t stride,
            std::int64_t pairs) {
  for (std::int64_t pair = 0; pair < pairs; pair += kPackedPairs) {
    for (std::int64_t i = 0; i < blocks.count; ++i) {
      const std::int64_t row = blocks.begin(i);
      const std::int64_t rows = blocks.begin(i + 1) - row;
      pack_transposed_a(to + row * pairs + pair * rows, a + 2 * pair * stride + row, stride,
                        std::min(kPackedPairs, pairs - pair), rows);
    }
  }
}

// Brings a block of an operand nearer while others are multiplied: its rows of memory are short and
// far apart, which the processor does not foresee.
class Ahead {
 public:
  // Of bf16 elements, in `steps` calls of fetch().
  void begin(const std::uint16_t* first, std::int64_t stride, std::int64_t rows, std::int64_t cols,
             std::int64_t steps) {
    first_ = first;
    stride_ = stride;
    lines_of_row_ = ceil_div(cols, kLineElements);
    lines_ = rows * lines_of_row_;
    lines_of_step_ = ceil_div(lines_, steps);
    next_ = 0;
  }
  void fetch() {
    const std::int64_t end = std::min(lines_, next_ + lines_of_step_);
    std::int64_t row = next_ / lines_of_row_;
    std::int64_t line = next_ % lines_of_row_;
    for (; next_ < end; ++next_) {
      __builtin_prefetch(first_ + row * stride_ + line * kLineElements, 0, 2);
      if (++line == lines_of_row_) {
        line = 0;
        ++row;
      }
    }
  }

 private:
  static constexpr std::int64_t kLineElements = 32;
  const std::uint16_t* first_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t lines_of_row_ = 1;
  std::int64_t lines_ = 0;
  std::int64_t lines_of_step_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace

bool bf16_gemm_supported() {
  return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
}

bool bf16_gemm_does(const GemmSpec& spec) {
  const bool forward = spec.a_layout == Layout::plain && spec.b_layout == Layout::transposed;
  return spec.operands == Dtype::bf16 && spec.k > 0 && spec.k % 2 == 0 && spec.m <= kTileRowsMax &&
         spec.n <= kTileColsMax && (forward || spec.k <= kDepth);
}

void bf16_gemm(const GemmSpec& spec, void* c, const void* a, const void* b, const void* bias,
               void* scratchpad) {
  const auto* const a_elements = static_cast<const std::uint16_t*>(a);
  const auto* const b_elements = static_cast<const std::uint16_t*>(b);
  auto* const scratch = static_cast<std::byte*>(scratchpad);
  auto* const panel = reinterpret_cast<Pair*>(scratch);
  auto* const packed_a = reinterpret_cast<Pair*>(scratch + kPanelBytes);
  const bool f32_result = spec.result == Dtype::f32;
  float* const sums = f32_result ? static_cast<float*>(c)
                                 : reinterpret_cast<float*>(scratch + kPanelBytes + kPackedABytes);
  const std::int64_t sums_stride = f32_result ? spec.c_stride : round_up(spec.n, kPanelCols);
  const bool transposed_a = spec.a_layout == Layout::transposed;
  const RowBlocks blocks(spec.m);
  const std::int64_t depth =
      round_up(ceil_div(spec.k, ceil_div(spec.k, kDepth)), std::int64_t{2 * kLanes});

  for (std::int64_t first = 0; first < spec.k; first += depth) {
    const std::int64_t pairs = std::min(depth, spec.k - first) / 2;
    const bool last = first + depth >= spec.k;
    if (transposed_a) {
      pack_a(packed_a, blocks, a_elements + first * spec.a_stride, spec.a_stride, pairs);
    }
    const std::int64_t next_terms = std::min(depth, spec.k - first - 2 * pairs);
    for (std::int64_t col = 0; col < spec.n; col += kPanelCols) {
      const std::int64_t cols = std::min(kPanelCols, spec.n - col);
      const std::int64_t vectors = ceil_div(cols, std::int64_t{kLanes});
      if (spec.b_layout == Layout::plain) {
        pack_plain_b(panel, b_elements + first * spec.b_stride + col, spec.b_stride, pairs, cols,
                     vectors);
      } else {
        pack_transposed_b(panel, b_elements + col * spec.b_stride + first, spec.b_stride, pairs,
                          cols, vectors);
      }
      Block block = {
          .a_row_bytes = spec.a_stride * 2,
          .b = panel,
          .pairs = pairs,
          .sums_stride = sums_stride,
          .add_sums = first > 0 || (f32_result && spec.into == Into::add),
          .results = !last        ? Results::sums
                     : f32_result ? Results::f32
                                  : Results::bf16,
          .c_row_bytes = spec.c_stride * bytes_of(spec.result),
          .add_bf16 = spec.into == Into::add,
          .bias = bias == nullptr ? nullptr : static_cast<const std::uint16_t*>(bias) + col};
      for (int v = 0; v < kVectors; ++v) {
        const std::int64_t lanes = std::clamp<std::int64_t>(cols - v * kLanes, 0, kLanes);
        block.masks[v] = static_cast<__mmask16>((1u << lanes) - 1);
      }
      Ahead next_b;
      if (spec.b_layout == Layout::plain) {
        if (col + kPanelCols < spec.n) {
          next_b.begin(b_elements + first * spec.b_stride + col + kPanelCols, spec.b_stride,
                       2 * pairs, std::min(kPanelCols, spec.n - col - kPanelCols), blocks.count);
        } else if (!last) {
          next_b.begin(b_elements + (first + depth) * spec.b_stride, spec.b_stride, next_terms,
                       std::min(kPanelCols, spec.n), blocks.count);
        }
      }
      for (std::int64_t i = 0; i < blocks.count; ++i) {
        next_b.fetch();
        const std::int64_t row = blocks.begin(i);
        const std::int64_t rows = blocks.begin(i + 1) - row;
        block.a = reinterpret_cast<const std::byte*>(
            transposed_a ? static_cast<const void*>(packed_a + row * pairs)
                         : static_cast<const void*>(a_elements + row * spec.a_stride + first));
        block.sums = sums + row * sums_stride + col;
        block.c =
            static_cast<std::byte*>(c) + row * block.c_row_bytes + col * bytes_of(spec.result);
        block_of(transposed_a, rows, vectors)(block);
      }
    }
  }
}

}  // namespace strata::ops::cpu
