#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu {

const KernelTable& kernel_table(Isa isa) {
  static constexpr KernelTable kScalar{scalar::elementwise_kernels, scalar::layernorm_kernels,
                                       scalar::rmsnorm_kernels, scalar::rotary_kernels,
                                       scalar::cross_entropy_kernels};
  static constexpr KernelTable kAvx2{avx2::elementwise_kernels, avx2::layernorm_kernels,
                                     avx2::rmsnorm_kernels, avx2::rotary_kernels,
                                     avx2::cross_entropy_kernels};
  static constexpr KernelTable kAvx512{avx512::elementwise_kernels, avx512::layernorm_kernels,
                                       avx512::rmsnorm_kernels, avx512::rotary_kernels,
                                       avx512::cross_entropy_kernels};
  switch (isa) {
    case Isa::scalar:
      return kScalar;
    case Isa::avx2:
      return kAvx2;
    case Isa::avx512:
      return kAvx512;
  }
  __builtin_unreachable();
}

}  // namespace strata::ops::cpu
