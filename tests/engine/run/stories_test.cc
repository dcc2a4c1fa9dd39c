// A real trained Llama (stories260K of ../shared/data), from its single file and from its shards:
// the loss that its publisher's weights have in float64, and every bit back.
#include "tests/engine/run/pretrained_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

const std::string kData = STRATA_SOURCE_DIR "/../shared/data/";
const std::string kStories = kData + "weights/stories260K/";
constexpr double kMeanNll = 1.46933958;  // over the 511 targets, computed in float64 elsewhere

class Stories : public DurableRuns, public ::testing::WithParamInterface<const char*> {
 protected:
  Stories() : DurableRuns(1) {}

  void SetUp() override {
    if (!fs::exists(kStories)) GTEST_SKIP() << "there is no " << kStories;
    const auto ids = nlohmann::json::parse(test::contents_of(kStories + "golden_ids_512.json"));
    std::vector<std::int32_t> header(256);
    header[0] = 20240520;
    header[1] = 1;
    header[2] = static_cast<std::int32_t>(ids["ids"].size());
    std::ofstream file(path("golden.bin"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(header.data()), 1024);
    for (const std::uint16_t id : ids["ids"]) {
      file.write(reinterpret_cast<const char*>(&id), sizeof id);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Each, Stories, ::testing::Values("hf_f32", "hf_f32_sharded"),
                         [](const auto& folder) { return folder.param; });

TEST_P(Stories, HaveTheirPublishedLossAndKeepTheirWeights) {
  complete("run",
           {"--model", kStories + GetParam(), "--data", kData + "bins/llmc_tinystories_tok512.bin",
            "--val-data", "golden.bin", "--eval-batches", "0", "--seq-len", "511", "--precision",
            "f32", "--warmup", "0", "--lr", "0"});
  const auto log = test::json_lines(test::contents_of(path("run/log.jsonl")));
  // The bound that the data's publisher gives for f32.
  EXPECT_NEAR(log.at(0).at("val_loss").get<double>(), kMeanNll, 1e-5);
  weights_of("run");
  EXPECT_EQ(tensors_of(path("run.exported")), tensors_of(kStories + GetParam()));
}

}  // namespace
}  // namespace strata::engine
