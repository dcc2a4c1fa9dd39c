#include "models/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/base/error.h"
#include "models/model_units.h"

namespace strata::models {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_model(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& text, const std::string& part) {
  EXPECT_NE(error_of(text).find(part), std::string::npos) << text << ": " << error_of(text);
}

// Parameters of the released models, tied tables once, as their model pages give them (the element
// counts of their safetensors files).
TEST(ModelConfig, PresetsHaveThePublishedParameterCounts) {
  const std::map<std::string, std::int64_t> published = {
      {"gpt2-124m", 124'439'808},        {"gpt2-355m", 354'823'168},
      {"gpt2-774m", 774'030'080},        {"gpt2-1.5b", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},    {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},    {"llama3.1-8b", 8'030'261'248},
      {"llama3.1-70b", 70'553'706'496},  {"llama3.1-405b", 405'853'388'800},
      {"llama3.2-1b", 1'235'814'400},    {"llama3.2-3b", 3'212'749'824},
      {"tinyllama-1.1b", 1'100'048'384}, {"smollm2-135m", 134'515'008},
      {"smollm2-360m", 361'821'120},     {"smollm2-1.7b", 1'711'376'384},
      {"mistral-7b", 7'241'732'096},     {"mistral-7b-v0.3", 7'248'023'552},
      {"qwen2.5-0.5b", 494'032'768},     {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},     {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},   {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},   {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},     {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},       {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
  };
  for (const std::string& preset : model_presets()) {
    ASSERT_TRUE(published.contains(preset)) << preset;
    EXPECT_EQ(parse_model(preset).parameters(), published.at(preset)) << preset;
  }
  EXPECT_EQ(model_presets().size(), published.size());
}

TEST(ModelConfig, PresetsHaveThePublishedPositions) {
  const ModelConfig llama31 = parse_model("llama3.1-8b");
  EXPECT_EQ(llama31.context, 131072);
  ASSERT_TRUE(llama31.rotary.has_value());
  EXPECT_EQ(llama31.rotary->theta, 500000);
  EXPECT_EQ(std::get<Llama3Rotary>(llama31.rotary->scaling).factor, 8);
  EXPECT_EQ(std::get<Llama3Rotary>(parse_model("llama3.2-1b").rotary->scaling).factor, 32);
  EXPECT_TRUE(std::holds_alternative<PlainRotary>(parse_model("llama3-8b").rotary->scaling));
  EXPECT_EQ(parse_model("llama3-8b").context, 8192);
  EXPECT_EQ(parse_model("llama2-7b").rotary->theta, 10000);
  EXPECT_EQ(parse_model("smollm2-135m").rotary->theta, 100000);
  EXPECT_EQ(parse_model("mistral-7b").window, 4096);
  EXPECT_EQ(parse_model("mistral-7b").context, 32768);
  EXPECT_EQ(parse_model("mistral-7b-v0.3").window, 0);
  EXPECT_EQ(parse_model("mistral-7b-v0.3").rotary->theta, 1e6);
  EXPECT_EQ(parse_model("qwen3-0.6b").channels(), 2048);
  EXPECT_EQ(parse_model("qwen3-0.6b").rotary->head_dim, 128);
  EXPECT_EQ(parse_model("qwen2.5-0.5b").norm_epsilon, 1e-6);
  EXPECT_FALSE(parse_model("gpt2-124m").rotary.has_value());
}

TEST(ModelConfig, UnitsHoldExactlyTheParameters) {
  std::vector<std::string> models = model_presets();
  models.push_back("gpt2:layers=3,hidden=36,heads=3,context=24,vocab=61");
  models.push_back("qwen3:layers=3,hidden=36,heads=3,context=24,kv-heads=1,head-dim=8,vocab=61");
  for (const std::string& model : models) {
    const ModelConfig config = parse_model(model);
    std::int64_t elements = 0;
    for (const UnitSpec& unit : model_units(config)) {
      for (const TensorSpec& tensor : unit.tensors) elements += tensor.elements();
    }
    EXPECT_EQ(elements, config.parameters()) << model;
  }
}

TEST(ModelConfig, ReadsASpec) {
  const ModelConfig config = parse_model("gpt2:layers=6,hidden=384,heads=6,context=256");
  EXPECT_EQ(config.name, "gpt2:layers=6,hidden=384,heads=6,context=256");
  EXPECT_EQ(config.layers, 6);
  EXPECT_EQ(config.hidden, 384);
  EXPECT_EQ(config.heads, 6);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.context, 256);
  EXPECT_EQ(config.vocabulary, 256);
  EXPECT_EQ(parse_model("gpt2:vocab=61,context=8,heads=2,hidden=4,layers=1").vocabulary, 61);
}

TEST(ModelConfig, ReadsASpecOfEachFamily) {
  const std::string shape = ":layers=2,hidden=48,heads=4,context=16";
  const ModelConfig llama = parse_model("llama" + shape);
  EXPECT_EQ(llama.family, Family::llama);
  EXPECT_EQ(llama.vocabulary, 256);
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_dim, 12);
  EXPECT_EQ(llama.intermediate, 128);  // 8/3 · 48, a multiple of 64
  EXPECT_EQ(llama.head, HeadKind::untied);
  EXPECT_EQ(llama.norm, NormKind::rms_norm);
  EXPECT_EQ(llama.rotary->head_dim, 12);
  EXPECT_EQ(parse_model("llama:layers=2,hidden=50,heads=5,context=16").intermediate, 192);
  const ModelConfig mistral = parse_model(
      "mistral" + shape + ",kv-heads=2,head-dim=6,intermediate=40,window=5,tied=yes,vocab=61");
  EXPECT_EQ(mistral.kv_channels(), 12);
  EXPECT_EQ(mistral.channels(), 24);
  EXPECT_EQ(mistral.intermediate, 40);
  EXPECT_EQ(mistral.window, 5);
  EXPECT_EQ(mistral.head, HeadKind::tied);
  EXPECT_EQ(mistral.vocabulary, 61);
  EXPECT_EQ(parse_model("qwen2" + shape + ",tied=no").biases, Biases::qkv);
  EXPECT_EQ(parse_model("qwen3" + shape).qk_norm, QkNorm::per_head);
}

TEST(ModelConfig, KnowsWhatImpliesRandomWeights) {
  EXPECT_TRUE(implies_random_weights("gpt2-124m"));
  EXPECT_TRUE(implies_random_weights("llama:layers=2,hidden=48,heads=4,context=16"));
  EXPECT_FALSE(implies_random_weights("llama3-8b"));
  EXPECT_FALSE(implies_random_weights("qwen3-0.6b"));
  EXPECT_FALSE(implies_random_weights("some/folder"));
}

TEST(ModelConfig, SaysWhatIsWrong) {
  const std::string shape = ":layers=2,hidden=48,heads=4,context=16";
  expect_error("llama3-8", "did you mean 'llama3-8b'");
  expect_error("qwen2.5-0.5", "did you mean 'qwen2.5-0.5b'");
  expect_error("lama" + shape, "unknown family 'lama' (did you mean 'llama'?)");
  expect_error("gpt2" + shape + ",kv-heads=2", "unknown key 'kv-heads'");
  expect_error("gpt2" + shape + ",tied=no", "unknown key 'tied'");
  expect_error("llama" + shape + ",tied=true", "'tied' must be yes or no, not 'true'");
  expect_error("llama" + shape + ",kv-heads=3",
               "heads (4) must be a multiple of key/value heads (3)");
  expect_error("gpt2:layers=1,hidden=2048,heads=1,context=4", "heads have 2048 channels");
  expect_error("llama" + shape + ",head-dim=7",
               "heads have 7 channels; rotary positions need an even number");
  expect_error("llama" + shape + ",windw=7", "did you mean 'window'?");
  expect_error("gpt2-124", "did you mean 'gpt2-124m'");
  expect_error("llama", "known are gpt2-124m, -355m, -774m, -1.5b; llama2-7b, -13b, -70b; ");
  expect_error("", "unknown model");
  expect_error("gpt2:layer=6,hidden=8,heads=2,context=4", "'layer' (did you mean 'layers'?)");
  expect_error("gpt2:layers=6,hidden=8,context=4", "'heads' is missing");
  expect_error("gpt2:layers=6,layers=6,hidden=8,heads=2,context=4", "'layers' is given twice");
  expect_error("gpt2:layers=0,hidden=8,heads=2,context=4", "'layers' must be a whole number");
  expect_error("gpt2:layers=-1,hidden=8,heads=2,context=4", "'layers' must be a whole number");
  expect_error("gpt2:layers=2.5,hidden=8,heads=2,context=4", "not '2.5'");
  expect_error("gpt2:layers,hidden=8,heads=2,context=4", "not ''");
  expect_error("gpt2:layers=6,hidden=8,heads=3,context=4",
               "hidden size (8) must be a multiple of heads (3)");
  expect_error("gpt2:layers=6,hidden=1000000,heads=2,context=4", "from 1 to 65536");
  expect_error("gpt2:layers=99999999999999999999,hidden=8,heads=2,context=4", "whole number");
  expect_error("gpt2:", "unknown key ''");
  expect_error("gpt2:layers=6,hidden=8,heads=2,context=4,", "unknown key ''");
}

TEST(ModelUnits, StandInForwardOrder) {
  const auto units =
      model_units(parse_model("gpt2:layers=2,hidden=36,heads=3,context=24,vocab=61"));
  std::vector<std::string> names;
  for (const UnitSpec& unit : units) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"wte.0", "wpe", "h.0", "h.1", "ln_f"}));
  EXPECT_EQ(units[0].role, UnitRole::token_table);
  EXPECT_EQ(units[1].role, UnitRole::position_table);
  EXPECT_EQ(units[2].role, UnitRole::block);
  EXPECT_EQ(units[4].role, UnitRole::final_norm);
}

// The shapes and names of Hugging Face's GPT2Model, with linear weights turned to (out, in).
TEST(ModelUnits, BlockHasHuggingFacesTensors) {
  const auto units = model_units(parse_model("gpt2-124m"));
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes;
  for (const UnitSpec& unit : units) {
    for (const TensorSpec& tensor : unit.tensors) shapes[tensor.name] = {tensor.rows, tensor.cols};
  }
  using Shape = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(shapes.at("h.11.ln_1.weight"), Shape(1, 768));
  EXPECT_EQ(shapes.at("h.11.ln_1.bias"), Shape(1, 768));
  EXPECT_EQ(shapes.at("h.11.attn.c_attn.weight"), Shape(2304, 768));
  EXPECT_EQ(shapes.at("h.11.attn.c_attn.bias"), Shape(1, 2304));
  EXPECT_EQ(shapes.at("h.11.attn.c_proj.weight"), Shape(768, 768));
  EXPECT_EQ(shapes.at("h.11.attn.c_proj.bias"), Shape(1, 768));
  EXPECT_EQ(shapes.at("h.11.ln_2.weight"), Shape(1, 768));
  EXPECT_EQ(shapes.at("h.11.ln_2.bias"), Shape(1, 768));
  EXPECT_EQ(shapes.at("h.11.mlp.c_fc.weight"), Shape(3072, 768));
  EXPECT_EQ(shapes.at("h.11.mlp.c_fc.bias"), Shape(1, 3072));
  EXPECT_EQ(shapes.at("h.11.mlp.c_proj.weight"), Shape(768, 3072));
  EXPECT_EQ(shapes.at("h.11.mlp.c_proj.bias"), Shape(1, 768));
  EXPECT_EQ(shapes.at("wpe.weight"), Shape(1024, 768));
  EXPECT_EQ(shapes.at("ln_f.weight"), Shape(1, 768));
  EXPECT_EQ(shapes.size(), 12u * 12 + 4);
}

TEST(ModelUnits, TensorsAreAlignedAndDoNotOverlap) {
  for (const char* model : {"gpt2:layers=2,hidden=36,heads=3,context=24,vocab=61", "gpt2-1.5b"}) {
    for (const UnitSpec& unit : model_units(parse_model(model))) {
      std::int64_t end = 0;
      for (const TensorSpec& tensor : unit.tensors) {
        EXPECT_EQ(tensor.offset_elements % kTensorAlignmentElements, 0) << tensor.name;
        EXPECT_GE(tensor.offset_elements, end) << tensor.name;
        EXPECT_LT(tensor.offset_elements - end, kTensorAlignmentElements) << tensor.name;
        end = tensor.offset_elements + tensor.elements();
      }
      EXPECT_EQ(unit.elements, end) << unit.name;
    }
  }
}

TEST(ModelUnits, TokenTableIsCutIntoChunksThatCoverIt) {
  for (const std::string& model : model_presets()) {
    const ModelConfig config = parse_model(model);
    std::int64_t rows = 0;
    for (const UnitSpec& unit : model_units(config)) {
      if (unit.role != UnitRole::token_table) continue;
      ASSERT_EQ(unit.tensors.size(), 1u);
      const TensorSpec& tensor = unit.tensors.front();
      EXPECT_EQ(tensor.name, config.family == Family::gpt2 ? "wte.weight" : "embed_tokens.weight");
      EXPECT_EQ(tensor.first_row, rows);
      EXPECT_EQ(tensor.first_row % 64, 0);
      EXPECT_LE(unit.elements, kTableChunkElements);
      EXPECT_EQ(tensor.cols, config.hidden);
      rows += tensor.rows;
    }
    EXPECT_EQ(rows, config.vocabulary) << model;
  }
  EXPECT_EQ(table_chunk_rows(parse_model("gpt2-124m")), 5440);  // 4194304 / 768 = 5461.3
  EXPECT_EQ(table_chunk_rows(parse_model("gpt2:layers=1,hidden=65536,heads=64,context=1")), 64);
}

TEST(ModelUnits, MatricesDecayAndVectorsDoNot) {
  for (const UnitSpec& unit : model_units(parse_model("gpt2-124m"))) {
    for (const TensorSpec& tensor : unit.tensors) {
      EXPECT_EQ(tensor.decay, tensor.rows > 1) << tensor.name;
    }
  }
}

TEST(ModelUnits, InitialValuesFollowGpt2sScheme) {
  for (const UnitSpec& unit : model_units(parse_model("gpt2-124m"))) {
    for (const TensorSpec& tensor : unit.tensors) {
      const bool bias = tensor.name.ends_with(".bias");
      const bool residual = tensor.name.ends_with("c_proj.weight");
      if (tensor.rows == 1) {
        EXPECT_EQ(tensor.initial, bias ? Initial::zeros : Initial::ones) << tensor.name;
      } else {
        EXPECT_EQ(tensor.initial, Initial::normal) << tensor.name;
        EXPECT_FLOAT_EQ(tensor.initial_std, residual ? 0.02f / 4.89897949f : 0.02f);  // sqrt(2·12)
      }
    }
  }
}

}  // namespace
}  // namespace strata::models
