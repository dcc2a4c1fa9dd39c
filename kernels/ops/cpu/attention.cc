#include "kernels/ops/cpu/attention.h"
namespace strata::ops::cpu {
std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits) { return 64*limits.head_dim; }
}
