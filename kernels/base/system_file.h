// Small text files that are there or not: those in which Linux shows its state (/proc, /sys,
// control groups), and those of model folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

// The whole file; nothing if it is absent, not readable or no regular file.
std::optional<std::string> read_system_file(const std::string& path);

// The number that stands after `key` at the start of a line ("VmRSS:", "inactive_file").
std::optional<std::int64_t> number_of_key(std::string_view text, std::string_view key);

}  // namespace strata
