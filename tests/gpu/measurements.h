// The groups of measurements of gpu_measure.
#pragma once

#include "tests/gpu/bench.h"

namespace strata::gpu_bench {

void measure_memory(Bench& bench);     // kernels whose floor is bytes, after a copy on the device
void measure_matmul(Bench& bench);     // linear layers at the models' shapes
void measure_attention(Bench& bench);  // forward and backward
void measure_overlap(Bench& bench);    // copies both ways and products, alone and at once
void measure_enqueue(Bench& bench);    // the host's time beside the GPU's, of decoder blocks

}  // namespace strata::gpu_bench
