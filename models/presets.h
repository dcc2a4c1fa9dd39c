// Models by name, without files: presets of the published sizes, and specs.
//
//   gpt2-124m, llama3-8b, qwen2.5-0.5b, …
//   FAMILY:layers=6,hidden=384,heads=6,context=256[,vocab=256][,kv-heads=…][,head-dim=…]
//     [,intermediate=…][,window=…][,tied=yes|no]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"

namespace strata::models {

// A preset or a spec. In a spec vocab defaults to bytes, 256; kv-heads to heads; head-dim to
// hidden / heads; intermediate to 4 hidden (gpt2, where it is not a key) or the multiple of 64 next
// above 8/3 hidden; a head is untied but for gpt2, whose only keys are the first five. Rotary
// angles of a spec are plain, theta 10,000 and the norms' epsilon 1e-5 (qwen: 1,000,000 and 1e-6).
// Throws ConfigError: unknown name or key (with the nearest known one), missing or repeated key,
// a value that is not a positive number, sizes that do not divide, sizes beyond limits.
ModelConfig parse_model(std::string_view text);

std::vector<std::string> model_presets();
// Whether parse_model knows it, or would say what is wrong with it: a preset's name, or a spec.
bool is_model_name(std::string_view text);
// Whether random weights are what anyone means by this name: specs and GPT-2's presets. To train
// the others from random weights takes --from-scratch.
bool implies_random_weights(std::string_view text);

}  // namespace strata::models
