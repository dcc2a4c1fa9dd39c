#include "kernels/ops/embedding.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/embedding.h"

namespace strata::ops {
namespace {

void check_rows(const char* op, const Matrix& x, const Matrix& table) {
  check_view(op, x);
  check_view(op, table);
  STRATA_CHECK(x.cols == table.cols, "{}: rows of {} and of {} columns", op, x.cols, table.cols);
}

void check_positions(const char* op, const Matrix& x, const Matrix& positions,
                     std::int64_t tokens) {
  check_rows(op, x, positions);
  STRATA_CHECK(tokens > 0 && tokens <= positions.rows && x.rows % tokens == 0,
               "{}: {} rows, {} tokens, {} positions", op, x.rows, tokens, positions.rows);
}

}  // namespace

void position_embedding_forward(Stream& stream, Matrix x, Matrix positions, std::int64_t tokens) {
  constexpr const char* kName = "position_embedding_forward";
  check_positions(kName, x, positions, tokens);
  check_dtype(kName, positions, x.dtype);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::position_embedding_forward(device, x, positions, tokens);
  });
}

void token_embedding_forward(Stream& stream, Matrix x, const std::int32_t* ids, Matrix table,
                             std::int64_t first_id) {
  constexpr const char* kName = "token_embedding_forward";
  check_rows(kName, x, table);
  check_dtype(kName, table, x.dtype);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::token_embedding_forward(device, x, ids, table, first_id);
  });
}

void position_embedding_backward(Stream& stream, Matrix dpositions, Into into, Matrix dx,
                                 std::int64_t tokens) {
  constexpr const char* kName = "position_embedding_backward";
  check_positions(kName, dx, dpositions, tokens);
  check_dtype(kName, dpositions, Dtype::f32);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::position_embedding_backward(device, dpositions, into, dx, tokens);
  });
}

void token_embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                              const std::int32_t* ids, std::int64_t first_id) {
  constexpr const char* kName = "token_embedding_backward";
  check_rows(kName, dx, dtable);
  check_dtype(kName, dtable, Dtype::f32);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::token_embedding_backward(device, dtable, into, dx, ids, first_id);
  });
}

}  // namespace strata::ops
