// What --nvme-endurance says: the bytes that each drive may be written in its life.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::engine {

// "600TBW", or one value for each of `directories`, such as "600TBW,1.2PBW", in the decimal units
// of data sheets (GBW, TBW, PBW); one value stands for every drive. Bytes of each directory; none
// for "". Throws ConfigError naming the part that is not understood.
std::vector<std::int64_t> parse_endurance(std::string_view text, std::size_t directories);

// "600 TBW"
std::string endurance_text(std::int64_t bytes);
// A share of a drive's life: "0.25%", "less than 0.01%", "810%".
std::string life_share_text(double share);

}  // namespace strata::engine
