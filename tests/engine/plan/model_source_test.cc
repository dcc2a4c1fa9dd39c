#include "engine/plan/model_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/error.h"
#include "models/hf_config.h"
#include "models/presets.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using test::error_text;
using test::mentions;

class ModelSourceTest : public ::testing::Test {
 protected:
  ModelSourceTest() { ::setenv("HF_HUB_CACHE", folder_.path("hub").c_str(), 1); }
  ~ModelSourceTest() override { ::unsetenv("HF_HUB_CACHE"); }

  void write_model(const std::string& folder) const {
    fs::create_directories(folder);
    const auto config = models::parse_model("gpt2:layers=3,hidden=8,heads=2,context=4");
    std::ofstream(folder + "/config.json") << models::hf_config_text(config, Dtype::f32);
  }
  static std::string refusal(const std::string& model) {
    return error_text<ConfigError>([&] { (void)resolve_model(model, ""); });
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ModelSourceTest, PresetsAndSpecsHaveRandomWeights) {
  EXPECT_EQ(resolve_model("gpt2-124m", "").folder, "");
  EXPECT_EQ(resolve_model("gpt2:layers=1,hidden=8,heads=2,context=4", "").config.layers, 1);
  EXPECT_PRED2(mentions, refusal("gpt2-124"), "did you mean 'gpt2-124m'");
}

TEST_F(ModelSourceTest, AFolderIsWhatItsConfigSays) {
  write_model(folder_.path("model"));
  const ModelSource source = resolve_model(folder_.path("model"), "");
  EXPECT_EQ(source.folder, folder_.path("model"));
  EXPECT_EQ(source.config.layers, 3);
  EXPECT_EQ(source.config.name, folder_.path("model"));
  std::ofstream(folder_.path("model/config.json")) << R"({"architectures": ["BertModel"]})";
  EXPECT_PRED2(mentions, refusal(folder_.path("model")), "BertModel is not supported");
  fs::remove(folder_.path("model/config.json"));
  EXPECT_PRED2(mentions, refusal(folder_.path("model")), "config.json cannot be read");
  EXPECT_PRED2(mentions, refusal(folder_.path("none/here/x")), "there is no such folder");
}

TEST_F(ModelSourceTest, ANameIsLookedUpInTheCache) {
  EXPECT_PRED2(mentions, refusal("some-org/tiny"), "hf download some-org/tiny");
  const std::string cached = folder_.path("hub/models--some-org--tiny");
  write_model(cached + "/snapshots/abc123");
  fs::create_directories(cached + "/refs");
  std::ofstream(cached + "/refs/main") << "abc123";
  EXPECT_EQ(resolve_model("some-org/tiny", "").folder, cached + "/snapshots/abc123");
  EXPECT_EQ(hub_name_of(cached + "/snapshots/abc123"), "some-org/tiny");
  EXPECT_EQ(hub_name_of(folder_.path("models--none")), "");
  std::ofstream(cached + "/refs/main") << "../abc123";
  EXPECT_PRED2(mentions, refusal("some-org/tiny"), "names no commit");
}

TEST_F(ModelSourceTest, WithWhatARunKeptTheFolderMayBeGone) {
  write_model(folder_.path("run/model"));
  const std::string kept = kept_model_folder(folder_.path("run"));
  EXPECT_EQ(resolve_model(folder_.path("gone"), kept).config.layers, 3);
  EXPECT_EQ(kept_model_folder(folder_.path("other")), "");
}

TEST_F(ModelSourceTest, AnExportHasTheTokenizerOfTheModel) {
  const std::string model = folder_.path("model");
  write_model(model);
  std::ofstream(model + "/merges.txt") << "a b\n";
  std::ofstream(model + "/README.md") << "not ours\n";
  const ModelFiles files =
      exported_model_files(resolve_model(model, "").config, Dtype::bf16, model);
  EXPECT_EQ(files.at("merges.txt"), "a b\n");
  EXPECT_EQ(files.size(), 2u);
  EXPECT_PRED2(mentions, files.at("config.json"), "bfloat16");
}

}  // namespace
}  // namespace strata::engine
