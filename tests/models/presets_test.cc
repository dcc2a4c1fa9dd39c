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

// Parameters of the released models (embeddings tied), as counted by PyTorch on Hugging Face's
// gpt2, gpt2-medium, gpt2-large and gpt2-xl.
TEST(ModelConfig, PresetsHaveThePublishedParameterCounts) {
  EXPECT_EQ(parse_model("gpt2-124m").parameters(), 124'439'808);
  EXPECT_EQ(parse_model("gpt2-355m").parameters(), 354'823'168);
  EXPECT_EQ(parse_model("gpt2-774m").parameters(), 774'030'080);
  EXPECT_EQ(parse_model("gpt2-1.5b").parameters(), 1'557'611'200);
}

TEST(ModelConfig, UnitsHoldExactlyTheParameters) {
  std::vector<std::string> models = model_presets();
  models.push_back("gpt2:layers=3,hidden=36,heads=3,context=24,vocab=61");
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

TEST(ModelConfig, SaysWhatIsWrong) {
  expect_error("gpt2-124", "did you mean 'gpt2-124m'");
  expect_error("llama", "known are gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1.5b");
  expect_error("", "unknown model");
  expect_error("gpt2:layer=6,hidden=8,heads=2,context=4", "'layer' (did you mean 'layers'?)");
  expect_error("gpt2:layers=6,hidden=8,context=4", "'heads' is missing");
  expect_error("gpt2:layers=6,layers=6,hidden=8,heads=2,context=4", "'layers' is given twice");
  expect_error("gpt2:layers=0,hidden=8,heads=2,context=4", "'layers' must be a whole number");
  expect_error("gpt2:layers=-1,hidden=8,heads=2,context=4", "'layers' must be a whole number");
  expect_error("gpt2:layers=2.5,hidden=8,heads=2,context=4", "not '2.5'");
  expect_error("gpt2:layers,hidden=8,heads=2,context=4", "not ''");
  expect_error("gpt2:layers=6,hidden=8,heads=3,context=4",
               "hidden (8) must be a multiple of heads");
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
      EXPECT_EQ(tensor.name, "wte.weight");
      EXPECT_EQ(tensor.first_row, rows);
      EXPECT_EQ(tensor.first_row % 64, 0);
      EXPECT_LE(unit.elements, kTableChunkElements);
      EXPECT_EQ(tensor.cols, config.hidden);
      rows += tensor.rows;
    }
    EXPECT_EQ(rows, config.vocabulary) << model;
  }
  EXPECT_EQ(table_chunk_rows(parse_model("gpt2-124m")), 5440);  // 4194304 / 768 = 5461.3
  EXPECT_EQ(table_chunk_rows(parse_model("gpt2:layers=1,hidden=65536,heads=1,context=1")), 64);
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
