#include "models/boundary_tokens.h"

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/json_value.h"

namespace strata::models {
namespace {

using nlohmann::json;

// Nothing: the file does not name any.
std::optional<json> named_in(const char* file, std::string_view text, const char* key) {
  if (text.empty()) return std::nullopt;
  const json parsed = json::parse(text, limit_depth, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw_error<FormatError>("{} is not a JSON object", file);
  const auto found = parsed.find(key);
  if (found == parsed.end() || found->is_null()) return std::nullopt;
  const json ids = found->is_array() ? *found : json::array({*found});
  for (const json& id : ids) {
    if (!id.is_number_integer()) {
      throw_error<FormatError>("{}: {} is neither a whole number nor a list of them", file, key);
    }
  }
  return ids;
}

std::vector<std::int32_t> named_tokens(const char* key, std::string_view generation_config,
                                       std::string_view config, std::int64_t vocabulary) {
  std::optional<json> ids = named_in("generation_config.json", generation_config, key);
  if (!ids) ids = named_in("config.json", config, key);
  std::vector<std::int32_t> tokens;
  if (!ids) return tokens;
  for (const json& id : *ids) {
    const auto token = id.get<std::int64_t>();
    if (token >= 0 && token < vocabulary) tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

}  // namespace

std::optional<std::int32_t> begin_token(std::string_view generation_config, std::string_view config,
                                        std::int64_t vocabulary) {
  const auto tokens = named_tokens("bos_token_id", generation_config, config, vocabulary);
  return tokens.empty() ? std::nullopt : std::optional(tokens.front());
}

std::vector<std::int32_t> end_tokens(std::string_view generation_config, std::string_view config,
                                     std::int64_t vocabulary) {
  return named_tokens("eos_token_id", generation_config, config, vocabulary);
}

}  // namespace strata::models
