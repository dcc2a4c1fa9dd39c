// TextFormat: how a model has text, as the files of its folder say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"

namespace strata::engine {

struct TextFormat {
  std::string tokenizer;                    // the text of tokenizer.json; "": there is none
  std::optional<std::int32_t> begin_token;  // of a text
  std::vector<std::int32_t> end_tokens;
};

// Nothing for a model without a folder. Throws FormatError naming the folder.
TextFormat read_text_format(const RunSetup& setup);

}  // namespace strata::engine
