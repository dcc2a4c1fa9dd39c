#include "models/end_tokens.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/error.h"

namespace strata::models {
namespace {

using nlohmann::json;

// Nothing: the file does not name any.
std::optional<json> named_in(const char* file, std::string_view text) {
  if (text.empty()) return std::nullopt;
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) throw_error<FormatError>("{} is not a JSON object", file);
  const auto found = parsed.find("eos_token_id");
  if (found == parsed.end() || found->is_null()) return std::nullopt;
  const json ids = found->is_array() ? *found : json::array({*found});
  for (const json& id : ids) {
    if (!id.is_number_integer()) {
      throw_error<FormatError>("{}: eos_token_id is neither a whole number nor a list of them",
                               file);
    }
  }
  return ids;
}

}  // namespace

std::vector<std::int32_t> end_tokens(std::string_view generation_config, std::string_view config,
                                     std::int64_t vocabulary) {
  std::optional<json> ids = named_in("generation_config.json", generation_config);
  if (!ids) ids = named_in("config.json", config);
  std::vector<std::int32_t> tokens;
  if (!ids) return tokens;
  for (const json& id : *ids) {
    const auto token = id.get<std::int64_t>();
    if (token >= 0 && token < vocabulary) tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

}  // namespace strata::models
