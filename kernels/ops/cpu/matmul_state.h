// MatmulState: the OpState that attach_cpu_ops() puts on a device. Beside the instruction set it
// holds how each shape is multiplied, the compiled matmuls, and the workers' scratch memory.
//
// Written before the first op only (attach_cpu_ops(), set_matmul_choices()). Ops of several streams
// then use it at once: the cache locks, a worker's scratch belongs to the tile that it runs, and
// backward passes of attention take turns with the sums that their workers share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/ops/cpu/gemm.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/worker_scratch.h"
#include "kernels/ops/cpu_ops.h"

namespace strata::ops::cpu {

struct MatmulState : OpState {
  MatmulState(CpuDevice& device, Isa isa, const CpuOpsLimits& limits, Dtype default_arithmetic,
              std::vector<MatmulChoice> choices);

  // How operands of this dtype are multiplied; f32 where the library cannot multiply bf16.
  Dtype arithmetic(Dtype operands, Dtype chosen);
  Dtype arithmetic(Dtype operands, MatmulKind kind, std::int64_t n, std::int64_t k);

  CpuOpsLimits limits;
  Dtype default_arithmetic;
  std::vector<MatmulChoice> choices;
  GemmCache gemms;
  WorkerScratch matmul_scratch;
  WorkerScratch attention_scratch;
  DeviceBuffer attention_sums;
  std::mutex attention_sums_turn;
};

// attach_cpu_ops() attaches nothing else.
inline MatmulState& matmul_state(CpuDevice& device) {
  return static_cast<MatmulState&>(op_state(device));
}

}  // namespace strata::ops::cpu
