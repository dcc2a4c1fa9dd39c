// The prompt of `strata generate`: --prompt, text for a model whose tokens are bytes, or
// --prompt-ids for every model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/options/options.h"
#include "engine/plan/model_source.h"
#include "models/model_config.h"

namespace strata::engine {

bool has_prompt(const Options& options);

// At least one token. Throws ConfigError: none or both are given, text for a model that is not
// byte-level, an id that the model lacks, more tokens than its context.
std::vector<std::int32_t> prompt_tokens(const Options& options, const ModelSource& source);

// --stop-ids; the same errors.
std::vector<std::int32_t> stop_tokens(const Options& options, const models::ModelConfig& model);

}  // namespace strata::engine
