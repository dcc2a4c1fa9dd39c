// What --model names, in the one place that resolves it for every command: a shape to be trained
// from random weights, or a Hugging Face folder with pretrained ones.
//
//   gpt2-124m, gpt2:layers=…     a preset or a spec (models/presets.h)
//   DIR                          a folder with a config.json
//   org/name                     in the local Hugging Face cache: $HF_HUB_CACHE, $HF_HOME/hub,
//                                $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub
//
// A run folder keeps the small files of its model (kKeptModelFolder), so that a run that goes on,
// and an export, do not need the folder that it came from.
#pragma once

#include <map>
#include <string>

#include "kernels/base/dtype.h"
#include "models/model_config.h"

namespace strata::engine {

inline constexpr const char* kModelConfigFile = "config.json";
inline constexpr const char* kKeptModelFolder = "model";  // in the folder of --run

// By name, the files of a model's folder that describe it beside its weights: its config.json and
// those of its tokenizer. None for a model without a folder.
using ModelFiles = std::map<std::string, std::string>;

struct ModelSource {
  models::ModelConfig config;
  std::string folder;        // of the pretrained weights; empty: the weights are random
  std::string files_folder;  // of ModelFiles: the kept folder or else `folder`; empty: none
  bool has_dropout = false;  // which is not applied here
};

// Throws ConfigError naming the model and what to do: it is not there, it is not supported.
// With `kept`, the kKeptModelFolder of a run that has one, the folder itself may be gone.
ModelSource resolve_model(const std::string& model, const std::string& kept);

// "org/name" of a snapshot in the Hugging Face cache; "" for every other folder.
std::string hub_name_of(const std::string& folder);

// Of a run's folder; "" where there is none.
std::string kept_model_folder(const std::string& run);

ModelFiles read_model_files(const std::string& folder);  // "": none

// What stands beside exported weights of that type: those of the kept folder, "" if there is none,
// with a config.json of these weights.
ModelFiles exported_model_files(const models::ModelConfig& config, Dtype weights,
                                const std::string& kept);

}  // namespace strata::engine
