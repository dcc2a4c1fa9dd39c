// The tokens that begin and end a text, as a Hugging Face folder names them: "bos_token_id" and
// "eos_token_id" of generation_config.json or else of config.json.
//
// Each file's text, empty where there is none. Ids outside [0, vocabulary) are left out: the model
// cannot say them. Throws FormatError, without the file's folder, for what is no such file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace strata::models {

std::optional<std::int32_t> begin_token(std::string_view generation_config, std::string_view config,
                                        std::int64_t vocabulary);

// A number or a list of them.
std::vector<std::int32_t> end_tokens(std::string_view generation_config, std::string_view config,
                                     std::int64_t vocabulary);

}  // namespace strata::models
