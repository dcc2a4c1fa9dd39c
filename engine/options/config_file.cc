#include "engine/options/config_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/options/option_check.h"
#include "engine/options/path_check.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The text between the quotes that `text` starts with; what follows must be blank or a comment.
// "…" knows \" \\ \n and \t, '…' is literal.
std::string quoted_value(std::string_view text, const std::string& where) {
  const char quote = text.front();
  std::string value;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    if (quote == '\'' || text[i] != '\\') {
      value += text[i];
      continue;
    }
    const char escape = ++i < text.size() ? text[i] : '\0';
    if (escape == 'n') {
      value += '\n';
    } else if (escape == 't') {
      value += '\t';
    } else if (escape == '"' || escape == '\\') {
      value += escape;
    } else {
      throw_error<ConfigError>("{}: a \\ in \"...\" must be part of \\\", \\\\, \\n or \\t", where);
    }
  }
  if (i >= text.size()) throw_error<ConfigError>("{}: the closing {} is missing", where, quote);
  const std::string_view rest = trimmed(text.substr(i + 1));
  if (!rest.empty() && rest.front() != '#') {
    throw_error<ConfigError>("{}: unexpected '{}' after the value", where, rest);
  }
  return value;
}

ConfigEntry parse_line(std::string_view line, std::string where) {
  const std::size_t equals = line.find('=');
  if (line.front() == '[') {
    throw_error<ConfigError>("{}: sections are not used here, only 'option = value' lines", where);
  }
  if (equals == std::string_view::npos) {
    throw_error<ConfigError>("{}: '{}' is not of the form 'option = value'", where, line);
  }
  const std::string key(trimmed(line.substr(0, equals)));
  const std::string_view text = trimmed(line.substr(equals + 1));
  const bool is_quoted = text.starts_with('"') || text.starts_with('\'');
  std::string value =
      is_quoted ? quoted_value(text, where) : std::string(trimmed(text.substr(0, text.find('#'))));
  if (key.empty() || (value.empty() && !is_quoted)) {
    throw_error<ConfigError>("{}: the {} is missing", where, key.empty() ? "option" : "value");
  }
  return {key, std::move(value), std::move(where)};
}

std::vector<ConfigEntry> parse_lines(std::string_view text, const std::string& name) {
  std::vector<ConfigEntry> entries;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    entries.push_back(parse_line(line, fmt::format("{}:{}", name, number)));
  }
  return entries;
}

std::vector<ConfigEntry> parse_json(std::string_view text, const std::string& name) {
  std::vector<ConfigEntry> entries;
  try {
    // Not through an object, which would silently keep one of two equal keys.
    const auto keep_keys = [&](int depth, nlohmann::json::parse_event_t event,
                               nlohmann::json& parsed) {
      if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
        entries.push_back({parsed.get<std::string>(), "", name});
      }
      return true;
    };
    const nlohmann::json object = nlohmann::json::parse(text, keep_keys);
    for (ConfigEntry& entry : entries) {
      const nlohmann::json& value = object.at(entry.key);
      if (value.is_string()) {
        entry.value = value.get<std::string>();
      } else if (value.is_number() || value.is_boolean()) {
        entry.value = value.dump();
      } else {
        throw_error<ConfigError>("{}: the value of '{}' must be a string, a number, true or false",
                                 name, entry.key);
      }
    }
  } catch (const nlohmann::json::exception& e) {
    throw_error<ConfigError>("{}: not valid JSON: {}", name, e.what());
  }
  return entries;
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  std::vector<ConfigEntry> entries = is_json ? parse_json(text, name) : parse_lines(text, name);
  std::set<std::string_view> keys;
  for (const ConfigEntry& entry : entries) {
    if (!keys.insert(entry.key).second) {
      throw_error<ConfigError>("{}: '{}' is given twice", entry.where, entry.key);
    }
  }
  return entries;
}

std::vector<ConfigEntry> read_config_file(const std::string& path) {
  name_in_errors("config", [&] { check_path(path, OptionPaths::file); });
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    throw_error<ConfigError>("cannot read the config file {}: {}", path, std::strerror(errno));
  }
  return parse_config(text, path);
}

}  // namespace strata::engine
