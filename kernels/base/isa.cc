#include "kernels/base/isa.h"

#include "kernels/base/error.h"

namespace strata {

// The levels are those that the code is compiled for (strata_isa_sources in
// cmake/StrataTargets.cmake); each includes what the header names, and the system's support for
// its registers.
bool isa_supported(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("x86-64-v3");
    case Isa::avx512:
      return __builtin_cpu_supports("x86-64-v4");
  }
  return false;
}

Isa best_isa() {
  for (const Isa isa : {Isa::avx512, Isa::avx2}) {
    if (isa_supported(isa)) return isa;
  }
  return Isa::scalar;
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

Isa parse_isa(std::string_view text) {
  if (text == "auto") return best_isa();
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (text != name_of(isa)) continue;
    if (!isa_supported(isa)) {
      throw_error<ConfigError>(
          "instruction set '{}': this machine does not run it; it runs up to {}", text,
          name_of(best_isa()));
    }
    return isa;
  }
  throw_error<ConfigError>("instruction set '{}' is unknown; give auto, avx512, avx2 or scalar",
                           text);
}

}  // namespace strata
