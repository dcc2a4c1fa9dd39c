#include "kernels/ops/cross_entropy.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/cross_entropy.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {

void softmax_stats_init(Stream& stream, SoftmaxStats stats, std::int64_t rows) {
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->softmax_stats_init(stream, stats, rows);
  }
  as_cpu(stream).launch("softmax_stats_init",
                        [=](CpuDevice& /*device*/) { cpu::softmax_stats_init(stats, rows); });
}

void softmax_stats_update(Stream& stream, SoftmaxStats stats, Matrix logits,
                          const std::int32_t* targets, std::int64_t first_id) {
  constexpr const char* kName = "softmax_stats_update";
  check_view(kName, logits);
  check_dtype(kName, logits, Dtype::f32);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->softmax_stats_update(stream, stats, logits, targets, first_id);
  }
  const cpu::SoftmaxUpdate op{stats.max, stats.sum_exp, stats.target_logit, logits,
                              targets,   first_id,      kIgnoredTarget};
  as_cpu(stream).launch(kName, [op](CpuDevice& device) { cpu::softmax_stats_update(device, op); });
}

void cross_entropy_loss(Stream& stream, double* loss_sum, SoftmaxStats stats,
                        const std::int32_t* targets, std::int64_t rows, TargetCounts* counts) {
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->cross_entropy_loss(stream, loss_sum, stats, targets, rows, counts);
  }
  as_cpu(stream).launch("cross_entropy_loss", [=](CpuDevice& /*device*/) {
    cpu::cross_entropy_loss(loss_sum, stats, targets, rows);
    if (counts != nullptr) cpu::count_targets(counts, stats, targets, rows);
  });
}

void cross_entropy_backward(Stream& stream, Matrix dlogits, Matrix logits, SoftmaxStats stats,
                            const std::int32_t* targets, std::int64_t first_id, float scale) {
  constexpr const char* kName = "cross_entropy_backward";
  check_same_shape(kName, dlogits, logits);
  check_dtype(kName, logits, Dtype::f32);
  STRATA_CHECK(dlogits.data != logits.data ||
                   (dlogits.dtype == Dtype::f32 && dlogits.stride == logits.stride),
               "{}: dlogits may be the logits only in f32", kName);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->cross_entropy_backward(stream, dlogits, logits, stats, targets, first_id, scale);
  }
  const cpu::CrossEntropyBackward op{dlogits, logits,   stats.max,      stats.sum_exp,
                                     targets, first_id, kIgnoredTarget, scale};
  as_cpu(stream).launch(kName,
                        [op](CpuDevice& device) { cpu::cross_entropy_backward(device, op); });
}

}  // namespace strata::ops
