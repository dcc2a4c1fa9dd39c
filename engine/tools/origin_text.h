// Where a store comes from, for people.
#pragma once

#include <cstdint>
#include <string>

#include "offload/store/file_header.h"

namespace strata::engine {

// "run DIR, rank 0 of 2, begun 3 days ago on HOST"
std::string origin_text(const store::FileHeader& header);

// "3 days ago", of seconds since 1970.
std::string age_text(std::int64_t then_s);

}  // namespace strata::engine
