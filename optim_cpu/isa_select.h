// select(): of the function tables that isa/ defines once per instruction set, the one of `isa`,
// which must be one that this machine runs.
#pragma once

#include "optim_cpu/isa/functions.h"

namespace strata::optim {

template <typename Functions>
const Functions& select(Isa isa, const Functions& scalar, const Functions& avx2,
                        const Functions& avx512) {
  switch (isa) {
    case Isa::avx512:
      return avx512;
    case Isa::avx2:
      return avx2;
    case Isa::scalar:
      break;
  }
  return scalar;
}

}  // namespace strata::optim
