#include "engine/tools/export_command.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/store_pointer.h"
#include "engine/portable/verify.h"
#include "engine/tools/inspect_command.h"
#include "engine/tools/verify_command.h"
#include "offload/store/stored_shard.h"
#include "tests/engine/portable/portable_machine.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

namespace fs = std::filesystem;
using test::error_text;
using test::mentions;

constexpr offload::StateDtypes kDtypes{Dtype::bf16, Dtype::f32, MomentFormat::f32, 2};

// The folder of a run on two ranks, whose second rank's files lie elsewhere, stopped at step 7.
class ExportTest : public ::testing::Test {
 protected:
  ExportTest() : model_(kDtypes, 2) {
    fs::create_directory(run_);
    std::ofstream(run_ + "/options.json")
        << R"({"model": "gpt2:layers=1,hidden=72,heads=2,context=8,vocab=123"})";
    std::ofstream(run_ + "/arithmetic.json") << "{}";
    StorePointer pointer;
    pointer.run_id = store::new_run_id();
    for (int rank = 0; rank < 2; ++rank) {
      const std::string directory = rank == 0 ? run_ : folder_.make_folder("drive");
      pointer.ranks.push_back({"host", {directory}});
      volumes_.push_back(store::testing::make_store({directory}, {pointer.run_id, rank, 2, run_},
                                                    model_.manifest));
      store::testing::NewLog log(*volumes_.back(), model_.manifest);
      const store::CommitTable table =
          write_state(*volumes_.back(), model_.plan, model_.manifest, rank);
      log.log.write(store::SuperblockKind::commit, 7, model_.origin.snapshot, &table);
      volumes_.back()->keep();
    }
    replace_store_pointer(run_, pointer);
    options_.arguments = {run_, target_};
  }

  void stop_run() { volumes_.clear(); }
  void run() const {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_export(options_), 0);
    ::testing::internal::GetCapturedStdout();
  }

  const test::TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");
  const std::string target_ = folder_.path("model");
  const StoredModel model_;
  std::vector<std::unique_ptr<io::Volume>> volumes_;
  Options options_;
};

TEST_F(ExportTest, WritesTheShardsOfAllRanks) {
  stop_run();
  options_.with_optimizer = true;
  run();
  EXPECT_TRUE(verify_portable(target_).damage.empty());
  model_.export_to(folder_.path("expected"), {});
  for (const char* const name : {"model.safetensors", "optimizer-00001-of-00001.safetensors"}) {
    EXPECT_EQ(test::contents_of(target_ + "/" + name),
              test::contents_of(folder_.path("expected/" + std::string(name))))
        << name;
  }
  const PortableIndex index = decode_portable_index(test::contents_of(target_ + "/strata.json"));
  EXPECT_EQ(index.origin.step, 7);
  EXPECT_EQ(index.origin.snapshot, model_.origin.snapshot);
  EXPECT_EQ(index.origin.world_size, 2);
  const auto config = nlohmann::json::parse(test::contents_of(target_ + "/config.json"));
  EXPECT_EQ(config["n_embd"], 72);
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
}

TEST_F(ExportTest, WeightsAloneAreCalledAModel) {
  stop_run();
  run();
  Options look;
  look.arguments = {target_};
  for (int (*const command)(const Options&) : {run_verify, run_inspect}) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(command(look), 0);
    const std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(text.starts_with("model " + target_ + ": step 7")) << text;
  }
}

TEST_F(ExportTest, WritesF32AndShardsAsAsked) {
  stop_run();
  options_.arguments[1] += "/";
  options_.export_dtype = "f32";
  options_.max_shard_size = 40'000;
  run();
  EXPECT_TRUE(fs::exists(target_ + "/model.safetensors.index.json"));
  EXPECT_TRUE(verify_portable(target_).damage.empty());
  const auto config = nlohmann::json::parse(test::contents_of(target_ + "/config.json"));
  EXPECT_EQ(config["torch_dtype"], "float32");
}

TEST_F(ExportTest, ALivingRunIsRefused) {
  EXPECT_TRUE(mentions(error_text<Error>([&] { run_export(options_); }), "use"));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(ExportTest, AnotherReaderIsNot) {
  stop_run();
  const std::vector<std::string> files =
      store::StoredShard::find_files({run_}, read_store_pointer(run_).value().run_id, 0);
  const store::StoredShard reader(files, io::VolumeAccess::shared, {}, nullptr);
  run();
  EXPECT_TRUE(verify_portable(target_).damage.empty());
}

TEST_F(ExportTest, AnExistingFolderIsRefused) {
  stop_run();
  fs::create_directory(target_);
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { run_export(options_); }), "exists already"));
}

TEST_F(ExportTest, AMissingShardIsNamedAndFoundWhereItIsSaidToBe) {
  stop_run();
  fs::rename(folder_.path("drive"), folder_.path("moved"));
  EXPECT_TRUE(mentions(error_text<Error>([&] { run_export(options_); }), "rank 1"));
  options_.nvme = folder_.path("moved");
  run();
  EXPECT_TRUE(verify_portable(target_).damage.empty());
}

TEST_F(ExportTest, ADamagedBlockIsNamedAndNothingIsLeft) {
  const std::string path = volumes_[1]->file(0).device_path(0);
  const std::int64_t data = volumes_[1]->metadata_bytes();
  stop_run();
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(data).put('x');
  const std::string text = error_text<IoError>([&] { run_export(options_); });
  EXPECT_TRUE(mentions(text, "wte.weight")) << text;
  EXPECT_TRUE(mentions(text, path)) << text;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "run" || name == "drive") << name;
  }
}

TEST_F(ExportTest, AFolderThatIsNoRunIsRefused) {
  options_.arguments[0] = folder_.path();
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { run_export(options_); }), "store.json"));
}

}  // namespace
}  // namespace strata::engine::testing
