#include "models/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/suggest.h"
#include "models/model_spec.h"

namespace strata::models {
namespace {

struct Shape {
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
  HeadKind head = HeadKind::untied;
};

// What the models of one release have in common.
struct Release {
  Family family;
  std::int64_t context;
  double theta;
  double norm_epsilon = 1e-5;
  RotaryScaling scaling = PlainRotary{};
  std::int64_t window = 0;
};

constexpr HeadKind kTied = HeadKind::tied;

class PresetTable {
 public:
  PresetTable() {
    add_gpt2();
    add_llama();
    add_mistral();
    add_qwen();
  }

  std::vector<ModelConfig> take() { return std::move(presets_); }

 private:
  void add(const Release& release, const std::vector<Shape>& shapes) {
    for (const Shape& shape : shapes) {
      ModelConfig config;
      config.name = shape.name;
      apply_family(config, release.family);
      config.layers = shape.layers;
      config.hidden = shape.hidden;
      config.heads = shape.heads;
      config.kv_heads = shape.kv_heads;
      config.head_dim = shape.head_dim;
      config.intermediate = shape.intermediate;
      config.context = release.context;
      config.vocabulary = shape.vocabulary;
      config.norm_epsilon = release.norm_epsilon;
      config.head = shape.head;
      config.window = release.window;
      if (release.family != Family::gpt2) {
        config.rotary = RotaryConfig{shape.head_dim, release.theta, release.scaling};
      }
      presets_.push_back(std::move(config));
    }
  }

  // Radford et al. 2019, table 2; heads from the released models.
  void add_gpt2() {
    add({Family::gpt2, 1024, 0}, {{"gpt2-124m", 12, 768, 12, 12, 64, 3072, 50257, kTied},
                                  {"gpt2-355m", 24, 1024, 16, 16, 64, 4096, 50257, kTied},
                                  {"gpt2-774m", 36, 1280, 20, 20, 64, 5120, 50257, kTied},
                                  {"gpt2-1.5b", 48, 1600, 25, 25, 64, 6400, 50257, kTied}});
  }

  // From here on: config.json of the released models.
  void add_llama() {
    add({Family::llama, 4096, 1e4}, {{"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000},
                                     {"llama2-13b", 40, 5120, 40, 40, 128, 13824, 32000},
                                     {"llama2-70b", 80, 8192, 64, 8, 128, 28672, 32000}});
    add({Family::llama, 8192, 5e5}, {{"llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256},
                                     {"llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256}});
    add({Family::llama, 131072, 5e5, 1e-5, Llama3Rotary{8, 1, 4, 8192}},
        {{"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256},
         {"llama3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256},
         {"llama3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256}});
    add({Family::llama, 131072, 5e5, 1e-5, Llama3Rotary{32, 1, 4, 8192}},
        {{"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, kTied},
         {"llama3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, kTied}});
    add({Family::llama, 2048, 1e4}, {{"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000}});
    add({Family::llama, 8192, 1e5}, {{"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, kTied},
                                     {"smollm2-360m", 32, 960, 15, 5, 64, 2560, 49152, kTied}});
    add({Family::llama, 8192, 130000},
        {{"smollm2-1.7b", 24, 2048, 32, 32, 64, 8192, 49152, kTied}});
  }

  void add_mistral() {
    add({Family::mistral, 32768, 1e4, 1e-5, PlainRotary{}, 4096},
        {{"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000}});
    add({Family::mistral, 32768, 1e6}, {{"mistral-7b-v0.3", 32, 4096, 32, 8, 128, 14336, 32768}});
  }

  // Contexts and epsilons are those of the base models of Qwen2.5, whose larger ones differ from
  // their instruction-tuned ones; of Qwen3, those of the models without "Base".
  void add_qwen() {
    add({Family::qwen2, 32768, 1e6, 1e-6},
        {{"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, kTied}});
    add({Family::qwen2, 131072, 1e6, 1e-6},
        {{"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, kTied}});
    add({Family::qwen2, 32768, 1e6, 1e-6},
        {{"qwen2.5-3b", 36, 2048, 16, 2, 128, 11008, 151936, kTied}});
    add({Family::qwen2, 131072, 1e6, 1e-6}, {{"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064}});
    add({Family::qwen2, 131072, 1e6, 1e-5}, {{"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064},
                                             {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064},
                                             {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064}});
    add({Family::qwen3, 40960, 1e6, 1e-6},
        {{"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, kTied},
         {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, kTied},
         {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, kTied},
         {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936},
         {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936},
         {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936}});
  }

  std::vector<ModelConfig> presets_;
};

const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> kPresets = PresetTable().take();
  return kPresets;
}

const ModelConfig* find_preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &ModelConfig::name);
  return found == presets().end() ? nullptr : &*found;
}

// "gpt2-124m, -355m, -774m, -1.5b; llama2-7b, -13b, …": the sizes of a release stand together.
std::string presets_text() {
  std::string text;
  std::string_view last;
  for (const ModelConfig& preset : presets()) {
    const std::string_view name = preset.name;
    const std::string_view release = name.substr(0, name.find('-'));
    if (release == last) {
      text += fmt::format(", {}", name.substr(release.size()));
    } else {
      text += fmt::format("{}{}", text.empty() ? "" : "; ", name);
    }
    last = release;
  }
  return text;
}

}  // namespace

ModelConfig parse_model(std::string_view text) {
  if (is_model_spec(text)) return parse_model_spec(text);
  if (const ModelConfig* const preset = find_preset(text)) return *preset;
  throw_error<ConfigError>(
      "--model {}: unknown model{}; known are {}; a shape, {}; a folder with a config.json; and "
      "org/name in the Hugging Face cache",
      text, did_you_mean(text, model_presets()), presets_text(), model_spec_form());
}

bool is_model_name(std::string_view text) {
  return is_model_spec(text) || find_preset(text) != nullptr;
}

std::vector<std::string> model_presets() {
  std::vector<std::string> names;
  for (const ModelConfig& preset : presets()) names.push_back(preset.name);
  return names;
}

bool implies_random_weights(std::string_view text) {
  const ModelConfig* const preset = find_preset(text);
  return preset == nullptr ? is_model_spec(text) : preset->family == Family::gpt2;
}

}  // namespace strata::models
