#include "engine/cost/machine_description_reader.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "engine/options/endurance.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

constexpr std::pair<std::string_view, double> kFlopsUnits[] = {
    {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};

double parse_flops(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, flops] : kFlopsUnits) {
    if (error == std::errc() && unit == name && value > 0 && value <= 1e6) return value * flops;
  }
  throw_error<ConfigError>("'{}' is no rate of arithmetic", text);
}

double parse_bytes_per_s(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (!text.ends_with(kPerSecond)) throw_error<ConfigError>("'{}' does not end in /s", text);
  const std::int64_t bytes = parse_bytes(text.substr(0, text.size() - kPerSecond.size()));
  if (bytes == 0) throw_error<ConfigError>("'{}' is no rate", text);
  return static_cast<double>(bytes);
}

}  // namespace

nlohmann::json parse_object_text(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto refuse_repeats = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw_error<ConfigError>("{} stands twice in one object", parsed.get<std::string>());
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, refuse_repeats);
  } catch (const nlohmann::json::exception& e) {
    throw_error<ConfigError>("not valid JSON: {}", e.what());
  }
}

ObjectReader::ObjectReader(const nlohmann::json& json, std::string name)
    : json_(&json), name_(std::move(name)) {
  if (json.is_object()) return;
  throw_error<ConfigError>("{} must be an object: {{\"key\": value, …}}",
                           name_.empty() ? "a machine's description" : name_);
}

bool ObjectReader::has(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return json_->contains(key);
}

std::string ObjectReader::text(const std::string& key) {
  const nlohmann::json& json = value(key);
  if (!json.is_string() || json.get_ref<const std::string&>().empty()) {
    throw_error<ConfigError>("{} must be text", path(key));
  }
  return json.get<std::string>();
}

std::vector<std::string> ObjectReader::texts(const std::string& key) {
  const nlohmann::json& json = value(key);
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!json.is_array() || json.empty() || !std::all_of(json.begin(), json.end(), is_text)) {
    throw_error<ConfigError>("{} must be a list of texts: [\"…\"]", path(key));
  }
  return json.get<std::vector<std::string>>();
}

int ObjectReader::count(const std::string& key, int least, int most) {
  const nlohmann::json& json = value(key);
  if (!json.is_number_integer() || json < least || json > most) {
    throw_error<ConfigError>("{} must be a whole number from {} to {}", path(key), least, most);
  }
  return json.get<int>();
}

double ObjectReader::share(const std::string& key) {
  const nlohmann::json& json = value(key);
  if (!json.is_number() || !(json > 0.0 && json <= 1.0)) {
    throw_error<ConfigError>("{} must be a number above 0 and at most 1", path(key));
  }
  return json.get<double>();
}

template <typename Parse>
auto ObjectReader::parsed(const std::string& key, const char* example, const Parse& parse) {
  const std::string text = this->text(key);
  try {
    return parse(text);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}; write it like \"{}\"", path(key), e.what(), example);
  }
}

std::int64_t ObjectReader::bytes(const std::string& key) {
  const std::int64_t bytes = parsed(key, "24GiB", parse_bytes);
  if (bytes <= kBytesMax) return bytes;
  throw_error<ConfigError>("{} must be at most {}", path(key), format_bytes(kBytesMax));
}

double ObjectReader::bytes_per_s(const std::string& key) {
  return parsed(key, "7GB/s", parse_bytes_per_s);
}

double ObjectReader::flops_per_s(const std::string& key) {
  return parsed(key, "165TFLOP/s", parse_flops);
}

std::int64_t ObjectReader::endurance_bytes(const std::string& key) {
  return parsed(key, "600TBW",
                [](std::string_view text) { return parse_endurance(text, 1).front(); });
}

std::optional<ObjectReader> ObjectReader::object(const std::string& key) {
  if (!has(key)) return std::nullopt;
  return ObjectReader(value(key), path(key));
}

void ObjectReader::finish() const {
  for (const auto& [key, ignored] : json_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw_error<ConfigError>("{} is not known{}", path(key), did_you_mean(key, known_));
  }
}

const nlohmann::json& ObjectReader::value(const std::string& key) {
  if (!has(key)) throw_error<ConfigError>("{} is missing", path(key));
  return json_->at(key);
}

std::string ObjectReader::path(const std::string& key) const {
  return name_.empty() ? key : name_ + "." + key;
}

}  // namespace strata::engine
