#include "kernels/ops/embedding.h"

#include <algorithm>

#include "tests/kernels/ops/op_runner.h"

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

const std::int32_t* ids_of(const DeviceBuffer& buffer) {
  return reinterpret_cast<const std::int32_t*>(buffer.data());
}

// The forward is two table look-ups and one addition: in f32 the sum is the f32 sum.
TEST(Embedding, ForwardAddsTheRowsOfBothTables) {
  const std::int64_t sequences = 3, tokens = 29, vocabulary = 11;
  for (const std::int64_t cols : {1, 7, 48, 391}) {
    OpRunner runner;
    const std::int64_t rows = sequences * tokens;
    const auto ids = random_ids(1, rows, vocabulary);
    const DeviceBuffer device_ids = runner.upload(ids);
    DeviceMatrix positions(runner, Dtype::f32, 40, cols, 2, random_values(1, 40 * cols));
    DeviceMatrix table(runner, Dtype::f32, vocabulary, cols, 3,
                       random_values(2, vocabulary * cols));
    DeviceMatrix x(runner, Dtype::f32, rows, cols, 1, std::vector<double>(rows * cols));
    position_embedding_forward(runner.stream(), x.view(), positions.view(), tokens);
    // The vocabulary in two chunks, [0, 4) and [4, 11).
    Matrix chunk = table.view();
    chunk.rows = 4;
    token_embedding_forward(runner.stream(), x.view(), ids_of(device_ids), chunk, 0);
    chunk = {table.f32() + 4 * chunk.stride, Dtype::f32, 7, cols, chunk.stride};
    token_embedding_forward(runner.stream(), x.view(), ids_of(device_ids), chunk, 4);

    const auto position_rows = positions.values(), table_rows = table.values(), got = x.values();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < cols; ++i) {
        const auto position = static_cast<float>(position_rows[row % tokens * cols + i]);
        const auto token = static_cast<float>(table_rows[ids[row] * cols + i]);
        ASSERT_EQ(got[row * cols + i], position + token);
      }
    }
  }
}

TEST(Embedding, ForwardInBf16RoundsTheSumOnce) {
  OpRunner runner;
  const DeviceBuffer ids = runner.upload(std::vector<std::int32_t>{1, 0});
  DeviceMatrix positions(runner, Dtype::bf16, 2, 1, 0, {1.0, 256.0});
  DeviceMatrix table(runner, Dtype::bf16, 2, 1, 0, {1.0, 0x1p-8});
  DeviceMatrix x(runner, Dtype::bf16, 2, 1, 0, {0, 0});
  position_embedding_forward(runner.stream(), x.view(), positions.view(), 2);
  token_embedding_forward(runner.stream(), x.view(), ids_of(ids), table.view(), 0);
  // 1 + 2^-8 lies half way between 1 and 1 + 2^-7, 257 half way between 256 and 258: ties to even.
  EXPECT_EQ(x.values(), (std::vector<double>{1.0, 256.0}));
}

TEST(Embedding, RowsOutsideTheChunkAreLeftAlone) {
  OpRunner runner;
  const DeviceBuffer ids = runner.upload(std::vector<std::int32_t>{4, 5, 7, 8});
  DeviceMatrix table(runner, Dtype::f32, 3, 2, 0, {1, 1, 2, 2, 3, 3});  // entries 5, 6, 7
  DeviceMatrix x(runner, Dtype::f32, 4, 2, 0, std::vector<double>(8, 10));
  token_embedding_forward(runner.stream(), x.view(), ids_of(ids), table.view(), 5);
  EXPECT_EQ(x.values(), (std::vector<double>{10, 10, 11, 11, 13, 13, 10, 10}));

  DeviceMatrix dtable(runner, Dtype::f32, 3, 2, 0, std::vector<double>(6, 100));
  DeviceMatrix dx(runner, Dtype::f32, 4, 2, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  token_embedding_backward(runner.stream(), dtable.view(), Into::add, dx.view(), ids_of(ids), 5);
  EXPECT_EQ(dtable.values(), (std::vector<double>{103, 104, 100, 100, 105, 106}));
  token_embedding_backward(runner.stream(), dtable.view(), Into::overwrite, dx.view(), ids_of(ids),
                           5);
  EXPECT_EQ(dtable.values(), (std::vector<double>{3, 4, 0, 0, 5, 6}));
}

// In f32, 1e8 + 1 is 1e8: only in the order of i is the sum 1.
TEST(Embedding, BackwardAddsRowsOfOneIdInOrder) {
  OpRunner runner({best_isa(), 3});
  const std::int64_t cols = 200;
  std::vector<double> rows;
  for (const double value : {1e8, 1.0, -1e8, 1.0}) rows.insert(rows.end(), cols, value);
  DeviceMatrix dx(runner, Dtype::f32, 4, cols, 0, rows);
  const DeviceBuffer ids = runner.upload(std::vector<std::int32_t>(4, 0));
  DeviceMatrix dtable(runner, Dtype::f32, 1, cols, 0, std::vector<double>(cols));
  token_embedding_backward(runner.stream(), dtable.view(), Into::overwrite, dx.view(), ids_of(ids),
                           0);
  EXPECT_EQ(dtable.values(), std::vector<double>(cols, 1.0));

  DeviceMatrix dpositions(runner, Dtype::f32, 1, cols, 0, std::vector<double>(cols));
  position_embedding_backward(runner.stream(), dpositions.view(), Into::overwrite, dx.view(), 1);
  EXPECT_EQ(dpositions.values(), std::vector<double>(cols, 1.0));
}

// f32 additions in the order that the contract states.
TEST(Embedding, BackwardMatchesSequentialSums) {
  const std::int64_t sequences = 3, tokens = 70, positions = 150, vocabulary = 9;
  const std::int64_t rows = sequences * tokens;
  const auto ids = random_ids(3, rows, vocabulary);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t cols : {1, 7, 100}) {
      for (const Into into : {Into::overwrite, Into::add}) {
        OpRunner runner;
        const DeviceBuffer device_ids = runner.upload(ids);
        DeviceMatrix dx(runner, dtype, rows, cols, 2, random_values(4, rows * cols));
        DeviceMatrix dtable(runner, Dtype::f32, vocabulary, cols, 1,
                            random_values(5, vocabulary * cols));
        DeviceMatrix dpositions(runner, Dtype::f32, positions, cols, 1,
                                random_values(6, positions * cols));
        const auto gradient = dx.values();
        auto expected_table = dtable.values(), expected_positions = dpositions.values();
        if (into == Into::overwrite) {
          std::ranges::fill(expected_table, 0.0);
          std::ranges::fill(expected_positions, 0.0);
        }
        const auto add_to = [](double& sum, double addend) {
          sum = static_cast<float>(sum) + static_cast<float>(addend);
        };
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < cols; ++i) {
            add_to(expected_table[ids[row] * cols + i], gradient[row * cols + i]);
            add_to(expected_positions[row % tokens * cols + i], gradient[row * cols + i]);
          }
        }
        token_embedding_backward(runner.stream(), dtable.view(), into, dx.view(),
                                 ids_of(device_ids), 0);
        position_embedding_backward(runner.stream(), dpositions.view(), into, dx.view(), tokens);
        EXPECT_EQ(dtable.values(), expected_table);
        EXPECT_EQ(dpositions.values(), expected_positions);
      }
    }
  }
}

TEST(EmbeddingBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  const std::int64_t rows = 240, tokens = 80, cols = 391, vocabulary = 30;
  const auto ids = random_ids(1, rows, vocabulary);
  expect_same_bits_everywhere([&](OpRunner& runner) {
    const DeviceBuffer device_ids = runner.upload(ids);
    DeviceMatrix positions(runner, Dtype::bf16, tokens, cols, 0, random_values(1, tokens * cols));
    DeviceMatrix table(runner, Dtype::bf16, vocabulary, cols, 0,
                       random_values(2, vocabulary * cols));
    DeviceMatrix x(runner, Dtype::bf16, rows, cols, 3, std::vector<double>(rows * cols));
    DeviceMatrix gradient(runner, Dtype::f32, vocabulary, cols, 0,
                          std::vector<double>(vocabulary * cols));
    position_embedding_forward(runner.stream(), x.view(), positions.view(), tokens);
    token_embedding_forward(runner.stream(), x.view(), ids_of(device_ids), table.view(), 0);
    token_embedding_backward(runner.stream(), gradient.view(), Into::add, x.view(),
                             ids_of(device_ids), 0);
    return Outputs{x.bytes(), gradient.bytes()};
  });
}

}  // namespace
}  // namespace strata::ops
