// Rotary positions in a config.json: rope_theta and rope_scaling, or the rope_parameters of newer
// versions, which hold both. Types default, linear, llama3 and yarn.
// Source: transformers, modeling_rope_utils.py (standardize_rope_params and the functions of the
// types), whose defaults hold.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "models/hf_keys.h"
#include "models/rotary_tables.h"

namespace strata::models {

// `head_dim` and `context` are the model's, 0 where they could not be read.
RotaryConfig read_hf_rotary(const HfKeys& root, std::int64_t head_dim, std::int64_t context);

// rope_scaling; null where there is none.
nlohmann::ordered_json hf_rope_scaling(const RotaryConfig& rotary);

}  // namespace strata::models
