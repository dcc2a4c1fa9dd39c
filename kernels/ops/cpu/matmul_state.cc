#include "kernels/ops/cpu/matmul_state.h"

#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/matmul.h"

namespace strata::ops::cpu {

MatmulState::MatmulState(CpuDevice& device, Isa isa, const CpuOpsLimits& limits,
                         Dtype default_arithmetic, std::vector<MatmulChoice> choices)
    : OpState{isa},
      limits(limits),
      default_arithmetic(default_arithmetic),
      choices(std::move(choices)),
      gemms(device.workers().worker_slots()),
      matmul_scratch(device, "matmul scratch", matmul_scratch_bytes(limits),
                     device.workers().worker_slots()),
      attention_scratch(device, "attention scratch", attention_scratch_bytes(limits),
                        device.workers().worker_slots()),
      attention_sums(
          device.allocate("attention gradients scratch",
                          attention_sums_bytes(limits, device.workers().worker_slots()))) {}

Dtype MatmulState::arithmetic(Dtype operands, Dtype chosen) {
  const bool bf16 = operands == Dtype::bf16 && chosen == Dtype::bf16 && gemms.multiplies_bf16();
  return bf16 ? Dtype::bf16 : Dtype::f32;
}

Dtype MatmulState::arithmetic(Dtype operands, MatmulKind kind, std::int64_t n, std::int64_t k) {
  const auto listed = std::find_if(choices.begin(), choices.end(), [&](const MatmulChoice& choice) {
    return choice.kind == kind && choice.n == n && choice.k == k;
  });
  return arithmetic(operands, listed == choices.end() ? default_arithmetic : listed->arithmetic);
}

}  // namespace strata::ops::cpu
