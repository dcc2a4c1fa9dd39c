// embedding.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void position_embedding_forward(CpuDevice& device, const Matrix& x, const Matrix& positions,
                                std::int64_t tokens);
void token_embedding_forward(CpuDevice& device, const Matrix& x, const std::int32_t* ids,
                             const Matrix& table, std::int64_t first_id);
void position_embedding_backward(CpuDevice& device, const Matrix& dpositions, Into into,
                                 const Matrix& dx, std::int64_t tokens);
void token_embedding_backward(CpuDevice& device, const Matrix& dtable, Into into, const Matrix& dx,
                              const std::int32_t* ids, std::int64_t first_id);

}  // namespace strata::ops::cpu
