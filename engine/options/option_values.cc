#include "engine/options/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::int64_t kDecimalGB = 1'000'000'000;

struct TimeUnit {
  std::string_view name;
  double seconds;
};
// No name is the end of a later one.
constexpr TimeUnit kTimeUnits[] = {{"h", 3600}, {"min", 60}, {"s", 1}};

template <typename T>
T parse_integer(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    throw_error<ConfigError>("'{}' is too large", text);
  }
  if (error != std::errc() || stop != end) {
    throw_error<ConfigError>("'{}' is not a whole number", text);
  }
  return value;
}

double parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    throw_error<ConfigError>("'{}' is not a number", text);
  }
  return value;
}

bool parse_switch(std::string_view text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  throw_error<ConfigError>("'{}' is neither on nor off", text);
}

// The shortest text with the same value: "2GiB", "512MiB", "5GB", "1000".
std::string exact_size(std::int64_t bytes) {
  if (bytes == 0) return "0";
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  if (bytes % kMiB == 0) return fmt::format("{}MiB", bytes / kMiB);
  if (bytes % kDecimalGB == 0) return fmt::format("{}GB", bytes / kDecimalGB);
  if (bytes % kKiB == 0) return fmt::format("{}KiB", bytes / kKiB);
  return fmt::format("{}", bytes);
}

// Seconds; nothing for text that ends in no unit of time.
std::optional<double> parse_time(std::string_view text) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (!text.ends_with(unit.name)) continue;
    return parse_number(text.substr(0, text.size() - unit.name.size())) * unit.seconds;
  }
  return std::nullopt;
}

// In the largest unit of which it is a whole number: "2h", "90min", "0.5s".
std::string time_text(double seconds) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (seconds != 0 && std::fmod(seconds, unit.seconds) == 0) {
      return fmt::format("{}{}", seconds / unit.seconds, unit.name);
    }
  }
  return fmt::format("{}s", seconds);
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    const char escape = ++i < text.size() ? text[i] : '\0';
    switch (escape) {
      case 'n':
        plain += '\n';
        break;
      case 't':
        plain += '\t';
        break;
      case '\\':
        plain += '\\';
        break;
      default:
        throw_error<ConfigError>("'{}' has a \\ that is not part of \\n, \\t or \\\\", text);
    }
  }
  return plain;
}

std::string escape(std::string_view plain) {
  std::string text;
  for (const char c : plain) {
    switch (c) {
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      case '\\':
        text += "\\\\";
        break;
      default:
        text += c;
    }
  }
  return text;
}

template <typename T>
OptionField plain_integer_field(T Options::*member) {
  return {"N", [member](Options& o, std::string_view text) { o.*member = parse_integer<T>(text); },
          [member](const Options& o) { return fmt::format("{}", o.*member); }};
}

template <typename T>
OptionField optional_integer_field(std::optional<T> Options::*member) {
  return {"N|auto",
          [member](Options& o, std::string_view text) {
            o.*member = text == kAuto ? std::nullopt : std::optional(parse_integer<T>(text));
          },
          [member](const Options& o) {
            return o.*member ? fmt::format("{}", *(o.*member)) : std::string(kAuto);
          }};
}

std::int64_t parse_steps(std::string_view text) {
  try {
    return parse_integer<std::int64_t>(text);
  } catch (const ConfigError& error) {
    throw_error<ConfigError>("{}: give steps (50), a time (30min), or 0 for never", error.what());
  }
}

}  // namespace

OptionField text_field(std::string value_hint, std::string Options::*member) {
  return {std::move(value_hint), [member](Options& o, std::string_view text) { o.*member = text; },
          [member](const Options& o) { return o.*member; }};
}

OptionField escaped_text_field(std::string value_hint, std::string Options::*member) {
  return {std::move(value_hint),
          [member](Options& o, std::string_view text) { o.*member = unescape(text); },
          [member](const Options& o) { return escape(o.*member); }};
}

OptionField choice_field(std::vector<std::string> choices, std::string Options::*member) {
  std::string hint = fmt::format("{}", fmt::join(choices, "|"));
  return {hint,
          [member, choices = std::move(choices)](Options& o, std::string_view text) {
            if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
              throw_error<ConfigError>("'{}' is not one of {}{}", text, fmt::join(choices, ", "),
                                       did_you_mean(text, choices));
            }
            o.*member = text;
          },
          [member](const Options& o) { return o.*member; }};
}

OptionField list_field(std::string value_hint, std::vector<std::string> Options::*member) {
  return {std::move(value_hint),
          [member](Options& o, std::string_view text) {
            std::vector<std::string> items;
            while (!text.empty()) {
              const std::size_t comma = text.find(',');
              const std::string_view item = text.substr(0, comma);
              if (item.empty()) throw ConfigError("an item between commas is empty");
              items.emplace_back(item);
              text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
            }
            o.*member = std::move(items);
          },
          [member](const Options& o) { return fmt::format("{}", fmt::join(o.*member, ",")); }};
}

OptionField integer_field(int Options::*member) { return plain_integer_field(member); }
OptionField integer_field(std::int64_t Options::*member) { return plain_integer_field(member); }
OptionField integer_field(std::uint64_t Options::*member) { return plain_integer_field(member); }
OptionField integer_field(std::optional<int> Options::*member) {
  return optional_integer_field(member);
}
OptionField integer_field(std::optional<std::int64_t> Options::*member) {
  return optional_integer_field(member);
}

OptionField size_field(std::optional<std::int64_t> Options::*member) {
  return {"SIZE|auto",
          [member](Options& o, std::string_view text) {
            o.*member = text == kAuto ? std::nullopt : std::optional(parse_bytes(text));
          },
          [member](const Options& o) {
            return o.*member ? exact_size(*(o.*member)) : std::string(kAuto);
          }};
}

OptionField size_field(std::int64_t Options::*member) {
  return {"SIZE", [member](Options& o, std::string_view text) { o.*member = parse_bytes(text); },
          [member](const Options& o) { return exact_size(o.*member); }};
}

OptionField number_field(std::string value_hint, double Options::*member) {
  return {std::move(value_hint),
          [member](Options& o, std::string_view text) { o.*member = parse_number(text); },
          [member](const Options& o) { return fmt::format("{}", o.*member); }};
}

OptionField steps_or_percent_field(std::string Options::*member) {
  return {
      "N|P%",
      [member](Options& o, std::string_view text) {
        const bool is_percent = text.ends_with('%');
        const double value = is_percent ? parse_number(text.substr(0, text.size() - 1))
                                        : static_cast<double>(parse_integer<std::int64_t>(text));
        if (value < 0 || (is_percent && value > 100)) {
          throw_error<ConfigError>("'{}' is neither steps (100) nor a share of them (3%)", text);
        }
        o.*member = text;
      },
      [member](const Options& o) { return o.*member; }};
}

OptionField duration_field(double Options::*member) {
  return {"SECONDS|20s|5min",
          [member](Options& o, std::string_view text) {
            const std::optional<double> seconds = parse_time(text);
            o.*member = seconds ? *seconds : parse_number(text);
          },
          [member](const Options& o) { return time_text(o.*member); }};
}

OptionField interval_field(std::optional<CheckpointInterval> Options::*member) {
  return {"N|30min|0",
          [member](Options& o, std::string_view text) {
            CheckpointInterval interval;
            if (const std::optional<double> seconds = parse_time(text)) {
              interval.seconds = *seconds;
            } else {
              interval.steps = parse_steps(text);
            }
            if (interval.steps < 0 || interval.seconds < 0) {
              throw_error<ConfigError>("'{}' is below 0; 0 is never", text);
            }
            o.*member = interval;
          },
          [member](const Options& o) {
            const CheckpointInterval interval = (o.*member).value_or(kDefaultCheckpointInterval);
            return interval.seconds > 0 ? time_text(interval.seconds)
                                        : fmt::format("{}", interval.steps);
          }};
}

OptionField switch_field(bool Options::*member) {
  return {"on|off", [member](Options& o, std::string_view text) { o.*member = parse_switch(text); },
          [member](const Options& o) { return std::string(o.*member ? "on" : "off"); }};
}

}  // namespace strata::engine
