#include "kernels/ops/embedding.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/embedding.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {
namespace {

void check_rows(const char* op, const Matrix& x, const Matrix& table) {
  check_view(op, x);
  check_view(op, table);
  STRATA_CHECK(x.cols == table.cols, "{}: rows of {} and of {} columns", op, x.cols, table.cols);
}

}  // namespace

void embedding_forward(Stream& stream, Matrix x, Into into, const std::int32_t* ids, Matrix table,
                       std::int64_t first_id) {
  constexpr const char* kName = "embedding_forward";
  check_rows(kName, x, table);
  check_dtype(kName, table, x.dtype);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->embedding_forward(stream, x, into, ids, table, first_id);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::embedding_forward(device, x, into, ids, table, first_id);
  });
}

void embedding_backward(Stream& stream, Matrix dtable, Into into, Matrix dx,
                        const std::int32_t* ids, std::int64_t first_id) {
  constexpr const char* kName = "embedding_backward";
  check_rows(kName, dx, dtable);
  check_dtype(kName, dtable, Dtype::f32);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->embedding_backward(stream, dtable, into, dx, ids, first_id);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::embedding_backward(device, dtable, into, dx, ids, first_id);
  });
}

}  // namespace strata::ops
