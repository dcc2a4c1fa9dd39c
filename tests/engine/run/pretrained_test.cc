// Fine-tuning of a Hugging Face folder with the program: what stands beside the weights, a run that
// goes on without the folder, and folders and shapes that are refused.
#include "tests/engine/run/pretrained_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Pretrained : public PretrainedRuns {
 protected:
  Pretrained() : PretrainedRuns("gpt2") {}
};

TEST_F(Pretrained, AnExportHasTheFilesBesideTheWeights) {
  complete("run", words(golden_folder_) + Words{"--export", "exported"});
  for (const char* const name : {"exported", "run.exported"}) {
    if (std::string(name) == "run.exported") weights_of("run");
    EXPECT_EQ(test::contents_of(path(std::string(name) + "/tokenizer_config.json")),
              test::contents_of(golden_folder_ + "/tokenizer_config.json"));
    const json config = json::parse(test::contents_of(path(std::string(name) + "/config.json")));
    EXPECT_EQ(config["initializer_range"], 0.2) << name;
  }
}

TEST_F(Pretrained, ARunGoesOnAndExportsWithoutTheFolder) {
  const std::string model = folder_.make_folder("model");
  fs::copy(golden_folder_, model, fs::copy_options::recursive);
  complete("whole", words(model));
  complete("run", words(model) + Words{"--steps", "1", "--lr-schedule", "constant"});
  fs::remove_all(model);
  complete("run", words(model) + Words{"--resume", "--lr-schedule", "constant"});
  weights_of("run");
  EXPECT_EQ(logged("run").size(), 2u);
}

TEST_F(Pretrained, ATrainedExportInSeveralFilesComesInAgain) {
  complete("run",
           {"--model", "qwen2:layers=2,hidden=128,heads=4,kv-heads=2,context=32", "--warmup", "0"});
  const Words shards = {"--export-dtype", "f32", "--max-shard-size", "1MiB"};
  EXPECT_EQ(strata(Words{"export", "run", "first"} + shards).exit_code, 0);
  EXPECT_TRUE(fs::exists(path("first/model.safetensors.index.json")));
  complete("again", {"--model", "first", "--warmup", "0", "--lr", "0"});
  EXPECT_EQ(strata(Words{"export", "again", "second"} + shards).exit_code, 0);
  EXPECT_EQ(tensors_of(path("second")), tensors_of(path("first")));
  EXPECT_EQ(test::contents_of(path("second/config.json")),
            test::contents_of(path("first/config.json")));
}

TEST_F(Pretrained, TheStartSaysWhereTheWeightsComeFrom) {
  EXPECT_PRED2(test::mentions, train("a", words(golden_folder_)).out,
               "weights    pretrained, from " + golden_folder_ + " (model.safetensors, f32)");
  EXPECT_PRED2(test::mentions, train("b", {"--warmup", "0"}).out, "weights    random, seed 1337");
}

TEST_F(Pretrained, APublishedShapeHasNoWeightsUnlessFromScratch) {
  expect_refused("run", {"--model", "smollm2-135m"}, 2, {"--model smollm2-135m", "--from-scratch"});
  // A plan does not need it, and comes to what this machine would lack.
  const Words plan = {"plan",  "--model",       "llama3-8b", "--device-memory",
                      "64MiB", "--host-memory", "64MiB"};
  EXPECT_PRED2(test::mentions, strata(plan).err, "memory is short");
  const test::ProcessResult folder = train("run", words(golden_folder_) + Words{"--from-scratch"});
  EXPECT_EQ(folder.exit_code, 0) << folder.err;
  EXPECT_TRUE(folder.out.starts_with("weights    random, seed 1337; the shape is that of " +
                                     golden_folder_))
      << folder.out;
  EXPECT_NE(first_validation_loss("run"), golden_["loss"]);
}

TEST_F(Pretrained, AFailedImportLeavesNothing) {
  const std::string model = folder_.make_folder("model");
  fs::copy(golden_folder_, model, fs::copy_options::recursive);
  std::string text = test::contents_of(model + "/model.safetensors");
  const std::uint32_t infinity = 0x7F800000;
  std::memcpy(text.data() + text.size() - 4, &infinity, 4);
  std::ofstream(model + "/model.safetensors", std::ios::binary) << text;
  const test::ProcessResult result = train("run", words(model));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_PRED2(test::mentions, result.err, "is inf");
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Pretrained, ADamagedFileIsRefusedAsAnyOtherBadModel) {
  const std::string model = folder_.make_folder("model");
  fs::copy(golden_folder_, model, fs::copy_options::recursive);
  fs::resize_file(model + "/model.safetensors", 100);
  expect_refused("run", words(model), 2, {"--model " + model, "model.safetensors"});
  fs::remove(model + "/model.safetensors");
  std::ofstream(model + "/model.safetensors.index.json") << "{}";
  expect_refused("run", words(model), 2, {"--model " + model, "weight_map"});
}

}  // namespace
}  // namespace strata::engine
