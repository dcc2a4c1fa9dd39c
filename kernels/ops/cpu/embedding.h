// embedding.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void embedding_forward(CpuDevice& device, const Matrix& x, Into into, const std::int32_t* ids,
                       const Matrix& table, std::int64_t first_id);
void embedding_backward(CpuDevice& device, const Matrix& dtable, Into into, const Matrix& dx,
                        const std::int32_t* ids, std::int64_t first_id);

}  // namespace strata::ops::cpu
