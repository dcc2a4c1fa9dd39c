// Small files beside the store's: written through the page cache, and durable where that is said.
#pragma once

#include <string>
#include <string_view>

namespace strata::io {

// Writes all of `text` to a descriptor; allocates nothing. Throws IoError naming `name`.
void write_fully(int descriptor, std::string_view text, std::string_view name);

// Replaces `path` by a file that holds `text`, durably. After a crash at any moment it is there as
// it was before, or complete; and perhaps PATH.new, which the next call overwrites. Throws IoError.
void replace_file(const std::string& path, std::string_view text);

// Makes the names in a directory durable: a flush of a file need not. Throws IoError.
void flush_directory(const std::string& directory);

// What replace_file() adds to the name of its temporary file.
inline constexpr std::string_view kUnfinishedSuffix = ".new";

}  // namespace strata::io
