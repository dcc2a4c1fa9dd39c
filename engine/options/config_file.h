// Config files: option names and values as text, from `key = value` lines or from a flat JSON
// object.
//
//   # a comment                       {"lr": 3e-4,
//   lr = 3e-4                          "data": "a #b.txt",
//   data = "a #b.txt"  # quoted        "json": true}
//
// A file whose first character is { is JSON. This knows nothing of which options exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::engine {

struct ConfigEntry {
  std::string key;    // as written
  std::string value;  // without quotes
  std::string where;  // "train.toml:3" or "train.json", for error messages
};

// Throws ConfigError naming the file (and line) when it cannot be read or parsed, or when a key
// occurs twice.
std::vector<ConfigEntry> read_config_file(const std::string& path);

// The same for text already read; `name` stands for the file in messages.
std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& name);

}  // namespace strata::engine
