// Runs that begin with a model folder of tests/golden, and what such folders hold.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/safetensors.h"
#include "tests/engine/run/durable_runs.h"

namespace strata::engine {

// The bytes of each tensor of the model files in a folder, by name, type and shape.
inline std::map<std::string, std::string> tensors_of(const std::string& folder) {
  std::map<std::string, std::string> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string text = test::contents_of(entry.path());
    const auto bytes = std::as_bytes(std::span(text));
    const std::int64_t data = models::safetensors_data_offset(bytes, std::ssize(text));
    const auto header = models::decode_safetensors(
        std::string_view(text).substr(8, static_cast<std::size_t>(data - 8)),
        std::ssize(text) - data);
    for (const models::SafetensorsTensor& tensor : header.tensors) {
      const std::string key =
          fmt::format("{} {} ({})", tensor.name, tensor.dtype, fmt::join(tensor.shape, ", "));
      tensors[key] = text.substr(static_cast<std::size_t>(data + tensor.offset_bytes),
                                 static_cast<std::size_t>(tensor.bytes));
    }
  }
  return tensors;
}

class PretrainedRuns : public DurableRuns {
 protected:
  explicit PretrainedRuns(const std::string& family)
      : DurableRuns(2), golden_folder_(STRATA_SOURCE_DIR "/tests/golden/hf_" + family + "_tiny") {
    golden_ = nlohmann::json::parse(test::contents_of(golden_folder_ + "/golden.json"));
    std::ofstream(path("golden.txt")) << golden_["text"].get<std::string>();
  }

  Words words(const std::string& model) const {
    return {"--model",        model, "--val-data", "golden.txt",
            "--eval-batches", "0",   "--seq-len",  std::to_string(golden_["tokens"].get<int>()),
            "--warmup",       "0"};
  }
  double first_validation_loss(const std::string& run) const {
    return test::json_lines(test::contents_of(path(run + "/log.jsonl"))).at(0).at("val_loss");
  }

  const std::string golden_folder_;
  nlohmann::json golden_;
};

}  // namespace strata::engine
