// What --data and --val-data name: a list of files, separated by commas, of which each may be a
// pattern.
#pragma once

#include <string>
#include <vector>

namespace strata::engine {

// The files in the order of the list, those of a pattern (* ? [...], as in a shell) sorted by name,
// byte by byte. A name that exists is taken as it is, whatever is in it. Throws ConfigError: a
// pattern without a file, a folder that cannot be listed, a table or an archive; UntokenizedFile:
// records such as JSON lines.
std::vector<std::string> expand_data_paths(const std::string& text);

}  // namespace strata::engine
