#include "kernels/ops/rotary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

constexpr std::int64_t kPositions = 50;

// cos and sin, times a factor as YaRN's, of position / 100^(i / half), in device memory.
struct TablesOnDevice {
  std::vector<float> cos, sin;  // (kPositions, half)
  DeviceBuffer cos_buffer, sin_buffer;
  RotaryTables view;

  TablesOnDevice(TestDevice& device, std::int64_t head_dim, double factor) {
    const std::int64_t half = head_dim / 2;
    for (std::int64_t i = 0; i < kPositions * half; ++i) {
      const double share = static_cast<double>(i % half) / static_cast<double>(half);
      const double angle = static_cast<double>(i / half) * std::pow(100, -share);
      cos.push_back(static_cast<float>(factor * std::cos(angle)));
      sin.push_back(static_cast<float>(factor * std::sin(angle)));
    }
    cos_buffer = device.upload(cos);
    sin_buffer = device.upload(sin);
    view = {reinterpret_cast<const float*>(cos_buffer.data()),
            reinterpret_cast<const float*>(sin_buffer.data()), kPositions, head_dim};
  }
};

std::vector<std::int32_t> random_positions(std::int64_t rows) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int32_t> uniform(0, kPositions - 1);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  for (std::int32_t& position : positions) position = uniform(generator);
  return positions;
}

const std::int32_t* ids_of(const DeviceBuffer& buffer) {
  return reinterpret_cast<const std::int32_t*>(buffer.data());
}

struct Case {
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  Dtype dtype;
};

// More than one tile of rows; halves that are whole vectors, vectors and a rest, and less.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    cases.push_back({131, 3, 34, dtype});
    cases.push_back({70, 1, 2, dtype});
    cases.push_back({5, 4, 64, dtype});
    cases.push_back({3, 7, 10, dtype});
  }
  return cases;
}

class Rotary : public ::testing::TestWithParam<Case> {};

// In double precision, by rows of the (2, 2) matrix; the backward's is its transpose. Two products
// and a sum, each rounded.
TEST_P(Rotary, ForwardAndBackwardMatchTheMatrix) {
  const auto [rows, heads, head_dim, dtype] = GetParam();
  const std::int64_t cols = heads * head_dim, half = head_dim / 2;
  TestDevice device;
  const TablesOnDevice tables(device, head_dim, 1.25);
  const std::vector<std::int32_t> positions = random_positions(rows);
  const DeviceBuffer ids = device.upload(positions);
  const auto start = random_values(dtype, rows * cols, 1, 0.25f, 2);
  const DeviceMatrix y(device, dtype, rows, cols, 5, start),
      dx(device, dtype, rows, cols, 2, start);
  rotary_forward(device.stream(), y.view(), tables.view, ids_of(ids));
  rotary_backward(device.stream(), dx.view(), tables.view, ids_of(ids));
  const auto forward = y.get_f64(), backward = dx.get_f64();
  const auto expect = [&](double got, double cos, double first, double sin, double second) {
    const double expected = cos * first + sin * second;
    ASSERT_NEAR(got, expected,
                2 * kF32Rounding * (std::abs(cos * first) + std::abs(sin * second)) +
                    rounding_of(dtype) * std::abs(expected));
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < cols; ++column) {
      if (column % head_dim >= half) continue;
      const std::int64_t entry = positions[row] * half + column % head_dim;
      const double cos = tables.cos[entry], sin = tables.sin[entry];
      const std::int64_t first = row * cols + column, second = first + half;
      expect(forward[first], cos, start[first], -sin, start[second]);
      expect(forward[second], cos, start[second], sin, start[first]);
      expect(backward[first], cos, start[first], sin, start[second]);
      expect(backward[second], cos, start[second], -sin, start[first]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Rotary, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}x{}x{}_{}", c.rows, c.heads, c.head_dim, name_of(c.dtype));
});

// transformers' rotate_half: (-second half, first half).
TEST(RotaryLayout, AQuarterTurnSwapsTheHalvesOfEveryHead) {
  TestDevice device;
  const DeviceBuffer cos = device.upload(std::vector<float>(2, 0));
  const DeviceBuffer sin = device.upload(std::vector<float>(2, 1));
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>{0});
  const RotaryTables tables{reinterpret_cast<const float*>(cos.data()),
                            reinterpret_cast<const float*>(sin.data()), 1, 4};
  const DeviceMatrix x(device, Dtype::f32, 1, 8, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  rotary_forward(device.stream(), x.view(), tables, ids_of(ids));
  EXPECT_EQ(x.get(), (std::vector<float>{-3, -4, 1, 2, -7, -8, 5, 6}));
}

// What the embedding is for: q at p + distance times k at p depends on the distance alone. A
// rotated element carries the rounding of its cos and sin, of two products and of their sum.
TEST(RotaryLayout, ScoresDependOnTheDistanceAlone) {
  constexpr std::int64_t kHeadDim = 64, kDistance = 9, kRows = kPositions - kDistance;
  TestDevice device;
  const TablesOnDevice tables(device, kHeadDim, 1);
  const auto q_head = random_values(Dtype::f32, kHeadDim, 1);
  const auto k_head = random_values(Dtype::f32, kHeadDim, 2);
  std::vector<float> q_rows, k_rows;
  std::vector<std::int32_t> q_positions, k_positions;
  for (std::int32_t row = 0; row < kRows; ++row) {
    q_rows.insert(q_rows.end(), q_head.begin(), q_head.end());
    k_rows.insert(k_rows.end(), k_head.begin(), k_head.end());
    q_positions.push_back(row + kDistance);
    k_positions.push_back(row);
  }
  const DeviceMatrix q(device, Dtype::f32, kRows, kHeadDim, 0, q_rows);
  const DeviceMatrix k(device, Dtype::f32, kRows, kHeadDim, 0, k_rows);
  const DeviceBuffer q_ids = device.upload(q_positions), k_ids = device.upload(k_positions);
  rotary_forward(device.stream(), q.view(), tables.view, ids_of(q_ids));
  rotary_forward(device.stream(), k.view(), tables.view, ids_of(k_ids));
  const auto qs = q.get_f64(), ks = k.get_f64();
  double magnitude = 0;
  for (std::int64_t i = 0; i < kHeadDim / 2; ++i) {
    magnitude += (std::abs(q_head[i]) + std::abs(q_head[i + kHeadDim / 2])) *
                 (std::abs(k_head[i]) + std::abs(k_head[i + kHeadDim / 2]));
  }
  const auto score = [&](std::int64_t row) {
    double total = 0;
    for (std::int64_t i = row * kHeadDim; i < (row + 1) * kHeadDim; ++i) total += qs[i] * ks[i];
    return total;
  };
  // Two factors, each with the rounding of a table, a product and a sum; two elements of a pair,
  // twice, for both scores.
  for (std::int64_t row = 1; row < kRows; ++row) {
    EXPECT_NEAR(score(row), score(0), 2 * 2 * 2 * 3 * kF32Rounding * magnitude) << row;
  }
}

TEST(RotaryDeathTest, RefusesPartsOfHeads) {
  TestDevice device;
  const TablesOnDevice tables(device, 4, 1);
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>{0, 0});
  const DeviceMatrix part(device, Dtype::f32, 2, 6);
  EXPECT_DEATH(rotary_forward(device.stream(), part.view(), tables.view, ids_of(ids)),
               "rows of 6 columns are no heads of 4");
}

// The cpu device refuses it; a cuda device, whose host does not see positions, has no numbers.
TEST(RotaryDeathTest, APositionBeyondTheTablesShows) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the position is found on the stream's thread
  TestDevice device;
  const TablesOnDevice tables(device, 4, 1);
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>{0, kPositions});
  const DeviceMatrix x(device, Dtype::f32, 2, 8, 0, std::vector<float>(16, 1));
  const auto rotate = [&] {
    rotary_forward(device.stream(), x.view(), tables.view, ids_of(ids));
    device.stream().synchronize();
  };
#ifdef STRATA_TEST_ON_CUDA
  rotate();
  const auto rows = x.get();
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 8), std::vector<float>(8, 1));
  for (std::size_t i = 8; i < 16; ++i) EXPECT_TRUE(std::isnan(rows[i])) << i;
#else
  EXPECT_DEATH(rotate(), "row 1 at position 50 of 50");
#endif
}

TEST(RotaryBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const std::int64_t rows = 200, head_dim = 34, cols = 5 * head_dim;
    expect_same_bits_everywhere([&](TestDevice& device) {
      const TablesOnDevice tables(device, head_dim, 1.25);
      const DeviceBuffer ids = device.upload(random_positions(rows));
      const DeviceMatrix x(device, dtype, rows, cols, 3, random_values(dtype, rows * cols, 1));
      const DeviceMatrix dx(device, dtype, rows, cols, 0, random_values(dtype, rows * cols, 2));
      rotary_forward(device.stream(), x.view(), tables.view, ids_of(ids));
      rotary_backward(device.stream(), dx.view(), tables.view, ids_of(ids));
      return Outputs{x.bytes(), dx.bytes()};
    });
  }
}

}  // namespace
}  // namespace strata::ops
