// A model's shape as text, FAMILY:key=value,…; presets.h has the grammar and its defaults.
#pragma once

#include <string>
#include <string_view>

#include "models/model_config.h"

namespace strata::models {

// "FAMILY:…" with any family, also an unknown one.
bool is_model_spec(std::string_view text);

// Throws ConfigError as parse_model() does.
ModelConfig parse_model_spec(std::string_view text);

// How a spec is written, for messages.
std::string model_spec_form();

}  // namespace strata::models
