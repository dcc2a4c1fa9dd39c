#include "engine/plan/rank_device.h"

#include <fmt/format.h>

#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::engine {

std::string matmul_library(const RankDevice& device) {
  if (!device.gpu) return ops::matmul_library();
  return fmt::format("{} on {}", ops::cuda_matmul_library(device.gpu->backend),
                     device.gpu->gpu.name);
}

}  // namespace strata::engine
