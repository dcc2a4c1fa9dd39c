// The tokens that end a text, as a Hugging Face folder names them: "eos_token_id" of
// generation_config.json or else of config.json, a number or a list of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::models {

// Each file's text, empty where there is none. Ids outside [0, vocabulary) are left out: they end
// nothing. Throws FormatError, without the file's folder, for what is no such file.
std::vector<std::int32_t> end_tokens(std::string_view generation_config, std::string_view config,
                                     std::int64_t vocabulary);

}  // namespace strata::models
