#include "models/hf_keys.h"

#include <fmt/format.h>

#include <utility>

namespace strata::models {

using nlohmann::json;

namespace {

// Beyond it squares and powers leave f32.
constexpr double kNumberMax = 1e15;

}  // namespace

HfKeys::HfKeys(const json& object, std::string prefix, std::vector<std::string>& problems)
    : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

const json& HfKeys::value(const char* key) const {
  static const json kNull;
  const auto found = object_.find(key);
  return found == object_.end() ? kNull : *found;
}

std::int64_t HfKeys::count(const char* key, std::int64_t min, std::int64_t max,
                           std::optional<std::int64_t> missing) const {
  const json& given = value(key);
  if (given.is_null() && missing) return *missing;
  if (given.is_number_unsigned() && given.get<std::uint64_t>() >= static_cast<std::uint64_t>(min) &&
      given.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)) {
    return given.get<std::int64_t>();
  }
  problem(fmt::format("{} must be a whole number from {} to {} and is {}", named(key), min, max,
                      json_excerpt(given)));
  return missing.value_or(0);
}

double HfKeys::number(const char* key, double above, std::optional<double> missing) const {
  const json& given = value(key);
  if (given.is_null() && missing) return *missing;
  if (given.is_number() && given.get<double>() > above && given.get<double>() <= kNumberMax) {
    return given.get<double>();
  }
  problem(fmt::format("{} must be a number above {} and is {}", named(key), above,
                      json_excerpt(given)));
  return missing.value_or(0);
}

std::optional<double> HfKeys::optional_number(const char* key, double above) const {
  if (missing(key)) return std::nullopt;
  return number(key, above);
}

bool HfKeys::flag(const char* key, bool missing) const {
  const json& given = value(key);
  if (given.is_boolean()) return given.get<bool>();
  if (!given.is_null()) {
    problem(fmt::format("{} must be true or false and is {}", named(key), json_excerpt(given)));
  }
  return missing;
}

std::string HfKeys::text(const char* key, const char* missing) const {
  const json& given = value(key);
  if (given.is_string()) return given.get<std::string>();
  if (!given.is_null()) {
    problem(fmt::format("{} must be text and is {}", named(key), json_excerpt(given)));
  }
  return missing;
}

void HfKeys::require(const char* key, const json& supported) const {
  const json& given = value(key);
  if (given.is_null() || given == supported) return;
  problem(fmt::format("{} is {}; supported: {}", named(key), json_excerpt(given),
                      json_excerpt(supported)));
}

std::string json_excerpt(const json& value) {
  if (value.is_structured()) return value.type_name();
  return value.is_null() ? "missing" : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace strata::models
