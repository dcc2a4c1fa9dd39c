#include "engine/checkpoint/run_options.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"

namespace strata::engine {
namespace {

// A number or boolean where that is what the text says, exactly; otherwise a string.
nlohmann::ordered_json json_value(const std::string& text) {
  const auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_plain = value.is_number() || value.is_boolean();
  return is_plain && value.dump() == text ? value : nlohmann::ordered_json(text);
}

}  // namespace

std::string run_options_json(const Options& options) {
  nlohmann::ordered_json object;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(CommandKind::train) || spec.of_a_start) continue;
    object[spec.name] = spec.is_flag ? nlohmann::ordered_json(spec.get(options) == "on")
                                     : json_value(spec.get(options));
  }
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<Options> recorded_options(const Options& given) {
  if (!given.resume || given.run.empty()) return std::nullopt;
  const std::filesystem::path path = std::filesystem::path(given.run) / kRunOptionsFile;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return parse_options({"train", "", CommandKind::train}, {"--config", path.string()});
}

}  // namespace strata::engine
