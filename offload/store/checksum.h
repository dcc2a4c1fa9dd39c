// The checksum of everything in a store: XXH3, 64 bits, seeded.
//
// Source: github.com/Cyan4973/xxHash, whose library picks the instruction set when it runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::store {

std::uint64_t checksum(const std::byte* data, std::int64_t bytes, std::uint64_t seed);

}  // namespace strata::store
