#include "kernels/device/cuda/architectures.h"

namespace strata::cuda {

#ifdef STRATA_CUDA_SIM
#define __CUDA_ARCH_LIST__ 800
#endif

// The compiler's list is in rising order, 890 for 8.9.
int oldest_capability() {
  constexpr int kCompiledFor[] = {__CUDA_ARCH_LIST__};
  return kCompiledFor[0] / 10;
}

}  // namespace strata::cuda
