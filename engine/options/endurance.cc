#include "engine/options/endurance.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr double kBytesMin = 1e6;
constexpr double kBytesMax = 1e18;
constexpr std::pair<std::string_view, double> kByteUnits[] = {
    {"GBW", 1e9}, {"TBW", 1e12}, {"PBW", 1e15}};

std::int64_t parse_value(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, bytes] : kByteUnits) {
    if (error != std::errc() || unit != name) continue;
    const double life_bytes = value * bytes;
    if (!(life_bytes >= kBytesMin && life_bytes <= kBytesMax)) break;
    return std::llround(life_bytes);
  }
  throw_error<ConfigError>(
      "'{}' is not what a drive may be written; write it like 600TBW or 1.2PBW", text);
}

}  // namespace

std::vector<std::int64_t> parse_endurance(std::string_view text, std::size_t directories) {
  std::vector<std::int64_t> values;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    values.push_back(parse_value(part));
    text.remove_prefix(part.size());
    if (text == ",") throw ConfigError("a value is missing after the last comma");
    if (!text.empty()) text.remove_prefix(1);
  }
  if (values.size() == 1) values.resize(directories, values.front());
  if (!values.empty() && values.size() != directories) {
    throw_error<ConfigError>(
        "{} values for {}; give one for all, or one for each", values.size(),
        count_text(static_cast<std::int64_t>(directories), "directory", "directories"));
  }
  return values;
}

std::string endurance_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  const auto& [name, unit] = value < 1e12 ? kByteUnits[0] : kByteUnits[1];
  return fmt::format("{:.6g} {}", value / unit, name);
}

std::string life_share_text(double share) {
  const double percent = 100 * share;
  if (percent == 0) return "0%";
  if (percent < 0.01) return "less than 0.01%";
  return fmt::format("{:.{}f}%", percent, percent < 1 ? 2 : percent < 10 ? 1 : 0);
}

}  // namespace strata::engine
