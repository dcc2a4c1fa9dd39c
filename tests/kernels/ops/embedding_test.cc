#include "kernels/ops/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

std::vector<std::int32_t> random_ids(std::uint32_t seed, std::int64_t count,
                                     std::int32_t vocabulary) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int32_t> uniform(0, vocabulary - 1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (auto& id : ids) id = uniform(generator);
  return ids;
}

// 0 … tokens - 1, once for each sequence.
std::vector<std::int32_t> positions_of(std::int64_t sequences, std::int64_t tokens) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(sequences * tokens));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(tokens));
  }
  return positions;
}

const std::int32_t* ids_of(const DeviceBuffer& buffer) {
  return reinterpret_cast<const std::int32_t*>(buffer.data());
}

// The forward is two table look-ups and one addition: in f32 the sum is the f32 sum.
TEST(Embedding, ForwardAddsTheRowsOfBothTables) {
  const std::int64_t sequences = 3, tokens = 29, vocabulary = 11;
  for (const std::int64_t cols : {1, 7, 48, 391}) {
    TestDevice device;
    const std::int64_t rows = sequences * tokens;
    const auto ids = random_ids(1, rows, vocabulary);
    const DeviceBuffer device_ids = device.upload(ids);
    const DeviceBuffer device_positions = device.upload(positions_of(sequences, tokens));
    DeviceMatrix positions(device, Dtype::f32, 40, cols, 2,
                           random_values(Dtype::f32, 40 * cols, 1));
    DeviceMatrix table(device, Dtype::f32, vocabulary, cols, 3,
                       random_values(Dtype::f32, vocabulary * cols, 2));
    DeviceMatrix x(device, Dtype::f32, rows, cols, 1);
    embedding_forward(device.stream(), x.view(), Into::overwrite, ids_of(device_positions),
                      positions.view(), 0);
    // The vocabulary in two chunks, [0, 4) and [4, 11).
    Matrix chunk = table.view();
    chunk.rows = 4;
    embedding_forward(device.stream(), x.view(), Into::add, ids_of(device_ids), chunk, 0);
    chunk = {table.f32() + 4 * chunk.stride, Dtype::f32, 7, cols, chunk.stride};
    embedding_forward(device.stream(), x.view(), Into::add, ids_of(device_ids), chunk, 4);

    const auto position_rows = positions.get(), table_rows = table.get(), got = x.get();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < cols; ++i) {
        const float position = position_rows[row % tokens * cols + i];
        ASSERT_EQ(got[row * cols + i], position + table_rows[ids[row] * cols + i]);
      }
    }
  }
}

TEST(Embedding, ForwardInBf16RoundsTheSumOnce) {
  TestDevice device;
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>{1, 0});
  DeviceMatrix positions(device, Dtype::bf16, 2, 1, 0, {1.0, 256.0});
  DeviceMatrix table(device, Dtype::bf16, 2, 1, 0, {1.0, 0x1p-8});
  DeviceMatrix x(device, Dtype::bf16, 2, 1, 0, {0, 0});
  const DeviceBuffer rows = device.upload(positions_of(1, 2));
  embedding_forward(device.stream(), x.view(), Into::overwrite, ids_of(rows), positions.view(), 0);
  embedding_forward(device.stream(), x.view(), Into::add, ids_of(ids), table.view(), 0);
  // 1 + 2^-8 lies half way between 1 and 1 + 2^-7, 257 half way between 256 and 258: ties to even.
  EXPECT_EQ(x.get(), (std::vector<float>{1.0, 256.0}));
}

TEST(Embedding, RowsOutsideTheChunkAreLeftAlone) {
  TestDevice device;
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>{4, 5, 7, 8});
  DeviceMatrix table(device, Dtype::f32, 3, 2, 0, {1, 1, 2, 2, 3, 3});  // entries 5, 6, 7
  DeviceMatrix x(device, Dtype::f32, 4, 2, 0, std::vector<float>(8, 10));
  embedding_forward(device.stream(), x.view(), Into::add, ids_of(ids), table.view(), 5);
  EXPECT_EQ(x.get(), (std::vector<float>{10, 10, 11, 11, 13, 13, 10, 10}));
  embedding_forward(device.stream(), x.view(), Into::overwrite, ids_of(ids), table.view(), 5);
  EXPECT_EQ(x.get(), (std::vector<float>{0, 0, 1, 1, 3, 3, 0, 0}));

  DeviceMatrix dtable(device, Dtype::f32, 3, 2, 0, std::vector<float>(6, 100));
  DeviceMatrix dx(device, Dtype::f32, 4, 2, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  embedding_backward(device.stream(), dtable.view(), Into::add, dx.view(), ids_of(ids), 5);
  EXPECT_EQ(dtable.get(), (std::vector<float>{103, 104, 100, 100, 105, 106}));
  embedding_backward(device.stream(), dtable.view(), Into::overwrite, dx.view(), ids_of(ids), 5);
  EXPECT_EQ(dtable.get(), (std::vector<float>{3, 4, 0, 0, 5, 6}));
}

// In f32, 1e8 + 1 is 1e8: only in the order of i is the sum 1.
TEST(Embedding, BackwardAddsRowsOfOneIdInOrder) {
  TestDevice device(best_isa(), 3);
  const std::int64_t cols = 200;
  std::vector<float> rows;
  for (const float value : {1e8f, 1.0f, -1e8f, 1.0f}) rows.insert(rows.end(), cols, value);
  DeviceMatrix dx(device, Dtype::f32, 4, cols, 0, rows);
  const DeviceBuffer ids = device.upload(std::vector<std::int32_t>(4, 0));
  DeviceMatrix dtable(device, Dtype::f32, 1, cols);
  embedding_backward(device.stream(), dtable.view(), Into::overwrite, dx.view(), ids_of(ids), 0);
  EXPECT_EQ(dtable.get(), std::vector<float>(cols, 1.0f));
}

// f32 additions in the order that the contract states.
TEST(Embedding, BackwardMatchesSequentialSums) {
  const std::int64_t sequences = 3, tokens = 70, vocabulary = 9;
  const std::int64_t rows = sequences * tokens;
  const auto ids = random_ids(3, rows, vocabulary);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t cols : {1, 7, 100}) {
      for (const Into into : {Into::overwrite, Into::add}) {
        TestDevice device;
        const DeviceBuffer device_ids = device.upload(ids);
        DeviceMatrix dx(device, dtype, rows, cols, 2, random_values(dtype, rows * cols, 4));
        DeviceMatrix dtable(device, Dtype::f32, vocabulary, cols, 1,
                            random_values(Dtype::f32, vocabulary * cols, 5));
        const auto gradient = dx.get();
        auto expected_table = dtable.get();
        if (into == Into::overwrite) std::ranges::fill(expected_table, 0.0f);
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < cols; ++i) {
            expected_table[ids[row] * cols + i] += gradient[row * cols + i];
          }
        }
        embedding_backward(device.stream(), dtable.view(), into, dx.view(), ids_of(device_ids), 0);
        EXPECT_EQ(dtable.get(), expected_table);
      }
    }
  }
}

TEST(EmbeddingBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  const std::int64_t rows = 240, tokens = 80, cols = 391, vocabulary = 30;
  const auto ids = random_ids(1, rows, vocabulary);
  expect_same_bits_everywhere([&](TestDevice& device) {
    const DeviceBuffer device_ids = device.upload(ids);
    const DeviceBuffer device_positions = device.upload(positions_of(rows / tokens, tokens));
    DeviceMatrix positions(device, Dtype::bf16, tokens, cols, 0,
                           random_values(Dtype::bf16, tokens * cols, 1));
    DeviceMatrix table(device, Dtype::bf16, vocabulary, cols, 0,
                       random_values(Dtype::bf16, vocabulary * cols, 2));
    DeviceMatrix x(device, Dtype::bf16, rows, cols, 3);
    DeviceMatrix gradient(device, Dtype::f32, vocabulary, cols);
    embedding_forward(device.stream(), x.view(), Into::overwrite, ids_of(device_positions),
                      positions.view(), 0);
    embedding_forward(device.stream(), x.view(), Into::add, ids_of(device_ids), table.view(), 0);
    embedding_backward(device.stream(), gradient.view(), Into::add, x.view(), ids_of(device_ids),
                       0);
    return Outputs{x.bytes(), gradient.bytes()};
  });
}

}  // namespace
}  // namespace strata::ops
