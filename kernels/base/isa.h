// The instruction sets Strata has code for, and which of them this machine runs.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

//   avx512  F, BW, VL, DQ        avx2  AVX2, FMA, F16C        scalar  x86-64 baseline
enum class Isa : std::uint8_t { scalar, avx2, avx512 };

Isa best_isa();                // of this machine
bool isa_supported(Isa isa);   // by this machine
const char* name_of(Isa isa);  // "avx512"
// "auto" gives best_isa(). Throws ConfigError on an unknown name or one this machine cannot run.
Isa parse_isa(std::string_view text);

}  // namespace strata
