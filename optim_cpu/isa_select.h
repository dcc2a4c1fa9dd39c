// The one of three that belongs to an instruction set.
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
