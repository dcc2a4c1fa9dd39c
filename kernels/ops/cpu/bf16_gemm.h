// A matmul of bf16 tiles with VDPBF16PS, for processors that have it and no AMX. Where the library
// packs both operands with general copy kernels on every call, this packs B, in pieces that stay in
// the nearest caches, and A only if it is transposed, and rounds results as they leave registers.
//
// Runs on the calling thread. Sums are f32, over pieces of k in order; the pieces follow from the
// GemmSpec, and so do the bits. Plain C++: ThreadSanitizer sees what it reads and writes.
#pragma once

#include "kernels/ops/cpu/gemm.h"

namespace strata::ops::cpu {

// Whether the processor has the instructions.
bool bf16_gemm_supported();

// Whether bf16_gemm() does this one: bf16 operands, an even k, a tile that its scratch holds. Those
// with a long k it does as in a linear layer's forward only: the library is as fast at the others.
bool bf16_gemm_does(const GemmSpec& spec);

// `scratchpad`: kGemmScratchpadBytes, aligned to a cache line. `bias` may be null.
void bf16_gemm(const GemmSpec& spec, void* c, const void* a, const void* b, const void* bias,
               void* scratchpad);

}  // namespace strata::ops::cpu
