#include "kernels/ops/cpu/isa/rows.h"
#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu::STRATA_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Online softmax: the sum so far is rescaled from the old maximum to the new one.
void update(const SoftmaxUpdate& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t cols = op.logits.cols;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    if (op.targets[row] == op.ignored_target) continue;
    const float* logits = row_of<const float>(op.logits, row);

    F32x16 lane_max = broadcast(op.max[row]);
    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      lane_max = max(load(logits + i, lanes, kMinusInfinity), lane_max);
    });
    const float new_max = largest(lane_max);
    const float shift = new_max == kMinusInfinity ? 0.0f : new_max;  // -inf - -inf is no number

    F32x16 lane_sum = broadcast(0);
    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      lane_sum = lane_sum + exp(load(logits + i, lanes, kMinusInfinity) - broadcast(shift));
    });
    float rescale[kLanes];
    store(rescale, exp(broadcast(op.max[row] - shift)));
    op.sum_exp[row] = op.sum_exp[row] * rescale[0] + sum(lane_sum);
    op.max[row] = new_max;

    const std::int64_t target = op.targets[row] - op.first_id;
    if (target >= 0 && target < cols) op.target_logit[row] = logits[target];
  }
}

template <typename T>
void backward(const CrossEntropyBackward& op, std::int64_t row_begin, std::int64_t row_end) {
  const std::int64_t cols = op.logits.cols;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const float* logits = row_of<const float>(op.logits, row);
    T* dlogits = row_of<T>(op.dlogits, row);
    if (op.targets[row] == op.ignored_target) {
      for_each_vector(cols,
                      [&](std::int64_t i, auto lanes) { store(dlogits + i, broadcast(0), lanes); });
      continue;
    }
    const F32x16 shift = broadcast(op.max[row]);
    const F32x16 factor = broadcast(op.scale / op.sum_exp[row]);
    const std::int64_t target = op.targets[row] - op.first_id;
    const bool has_target = target >= 0 && target < cols;
    const float target_logit = has_target ? logits[target] : 0.0f;  // before dlogits overwrites it
    for_each_vector(cols, [&](std::int64_t i, auto lanes) {
      store(dlogits + i, exp(load(logits + i, lanes) - shift) * factor, lanes);
    });
    if (has_target) {
      const F32x16 probability = exp(broadcast(target_logit) - shift) * factor;
      store(dlogits + target, probability - broadcast(op.scale), Tail{1});
    }
  }
}

}  // namespace

constinit const CrossEntropyKernels cross_entropy_kernels = {
    .update = update,
    .backward = {backward<float>, backward<bf16>},
};

}  // namespace strata::ops::cpu::STRATA_ISA
