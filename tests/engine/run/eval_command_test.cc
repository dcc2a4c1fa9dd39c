// strata eval: of a model folder, of a run and by several ranks; what it prints, and what it
// refuses.
#include <cmath>
#include <filesystem>

#include "models/safetensors.h"
#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kStories = STRATA_SOURCE_DIR "/../shared/data/weights/stories260K/";

class EvalCommand : public DurableRuns {
 protected:
  EvalCommand() : DurableRuns(12) { test::write_text(path("held_out.txt"), 3'000); }

  // Of data that the run `run` validates on.
  static Words validated() { return {"--val-data", "held_out.txt", "--eval-batches", "0"}; }
  json evaluated(const Words& more, int ranks = 1) const {
    const Words eval = {
        STRATA_BINARY,     "eval",  "--json",        "--matmul-dtype", "f32",    "--threads",   "1",
        "--device-memory", "32MiB", "--host-memory", "64MiB",          "--data", "held_out.txt"};
    const test::ProcessResult result =
        test::run_process(mpirun(ranks) + eval + more, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  double validation_loss(const std::string& run) const {
    return test::json_lines(test::contents_of(path(run + "/log.jsonl"))).back().at("val_loss");
  }
  void expect_refused(const Words& words, int exit_code, const Words& parts) const {
    const test::ProcessResult result = strata(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) EXPECT_PRED2(test::mentions, result.err, part);
  }
};

// 1.46933958 over the 511 targets, and the text's 512 ids, are from elsewhere: a forward in
// float64 of the same weights. 1e-5 is what f32 may differ by, as its publisher says.
TEST_F(EvalCommand, MeasuresAModelAsOthersDo) {
  if (!fs::exists(kStories)) GTEST_SKIP() << "there is no " << kStories;
  const json golden = json::parse(test::contents_of(kStories + "golden_ids_512.json"));
  std::vector<std::uint16_t> file(512);  // of the header: 256 numbers of 32 bits
  const std::uint32_t header[] = {20240520, 1, static_cast<std::uint32_t>(golden["ids"].size())};
  std::memcpy(file.data(), header, sizeof header);
  for (const std::uint16_t id : golden["ids"]) file.push_back(id);
  std::ofstream(path("golden.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()),
             static_cast<std::streamsize>(2 * file.size()));
  for (const char* const folder : {"hf_f32", "hf_f32_sharded"}) {
    const json result = evaluated({"--model", kStories + folder, "--data", "golden.bin",
                                   "--precision", "f32", "--seq-len", "511"});
    EXPECT_EQ(result["targets"], 511);
    EXPECT_NEAR(result["loss"].get<double>(), 1.46933958, 1e-5) << folder;
    EXPECT_DOUBLE_EQ(result["perplexity"].get<double>(), std::exp(result["loss"].get<double>()));
    EXPECT_DOUBLE_EQ(result["accuracy"].get<double>(), result["correct"].get<double>() / 511);
  }
}

TEST_F(EvalCommand, OfARunIsItsOwnValidationLoss) {
  complete("run", validated());
  const json result = evaluated({"--model", "run"});
  EXPECT_EQ(result["loss"], validation_loss("run"));
  const test::ProcessResult moved =
      strata({"train", "--run", "run", "--resume", "--steps", "14", "--lr-schedule", "constant",
              "--allow-change", "steps,lr-schedule"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(evaluated({"--model", "run"})["loss"], validation_loss("run")) << "its newest commit";
}

TEST_F(EvalCommand, OfARunLeavesItAsItIs) {
  complete("run", validated());
  const std::string log = test::contents_of(path("run/log.jsonl"));
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("run"))) names.push_back(entry.path());
    std::ranges::sort(names);
    return names;
  };
  const auto before = files();
  evaluated({"--model", "run", "--place", "weights=nvme"});  // in the run's folder
  EXPECT_EQ(files(), before);
  EXPECT_EQ(test::contents_of(path("run/log.jsonl")), log);
  expect_intact("run");
}

TEST_F(EvalCommand, RanksAndTiersGiveTheLossOfOne) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  complete("run", validated(), 2);
  fs::create_directory(path("nvme"));
  const double expected = evaluated({"--model", "run"})["loss"];
  for (const int ranks : {1, 2, 3}) {
    const json result =
        evaluated({"--model", "run", "--nvme", "nvme", "--place", "weights=nvme"}, ranks);
    // Sums of f64 in another order.
    EXPECT_NEAR(result["loss"].get<double>(), expected, 1e-12 * expected) << ranks;
  }
  EXPECT_TRUE(fs::is_empty(path("nvme")));
}

TEST_F(EvalCommand, PrintsWhatItRead) {
  complete("run", validated());
  const test::ProcessResult result =
      strata({"eval", "--model", "run", "--data", "held_out.txt", "--eval-batches", "5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* const part :
       {"weights    step 12 of the run in run; bf16", "3,000 bytes of text", "of 160 targets"}) {
    EXPECT_PRED2(test::mentions, result.out, part);
  }
}

TEST_F(EvalCommand, RefusesWhatItCannotRead) {
  complete("run", {});
  const auto eval = [](const Words& more) { return Words{"eval", "--data", "text.txt"} + more; };
  expect_refused(eval({}), 2, {"--model is missing"});
  expect_refused({"eval", "--model", "run"}, 2, {"--data is missing"});
  expect_refused(eval({"--model", "gpt2-124m"}), 2, {"has no weights", "--from-scratch"});
  expect_refused(eval({"--model", "gpt2-124m", "--device-memory", "4KiB"}), 2, {"has no weights"});
  expect_refused(eval({"--model", "nowhere"}), 2, {"--model nowhere"});
  expect_refused(eval({"--model", "run", "--lr", "1"}), 2, {"--lr: strata eval does not have"});
  expect_refused(eval({"--model", "run", "--precision", "f32"}), 2,
                 {"are bf16", "strata export run"});
  expect_refused(eval({"--model", "run", "--resume-step", "7"}), 2, {"--resume-step 7"});
  expect_refused(eval({"--model", "gpt2-124m", "--resume-step", "7"}), 2, {"--resume-step"});
  expect_refused(eval({"--model", "run", "--seq-len", "33"}), 2, {"--seq-len 33"});
  expect_refused(eval({"--model", "run", "--place", "moments=nvme"}), 2, {"weights=TIER"});
  expect_refused(eval({"--model", "run", "--micro-batch", "9000000000"}), 2, {"--micro-batch"});
  expect_refused(eval({"--model", "run", "--host-memory", "4KiB"}), 1, {"host memory is short"});
  expect_refused({"eval", "--model", "run", "--data", "absent.txt"}, 2, {"absent.txt"});
  expect_refused(eval({"--model", "gpt2:layers=2,hidden=64,heads=2,context=32", "--from-scratch",
                       "--place", "weights=nvme"}),
                 2, {"use --nvme DIR"});
}

// Rather than that it asks for a directory: 8192 take 96 MiB for their activations.
TEST_F(EvalCommand, ThePassIsOneThatFitsInMemory) {
  const Words eval = {"--model", "gpt2:layers=2,hidden=64,heads=2,context=32", "--from-scratch",
                      "--seq-len", "1"};
  const auto in_memory = [&](const Words& more) {
    return evaluated(eval + Words{"--device-memory", "16MiB", "--host-memory", "8MiB"} + more);
  };
  const json small = in_memory({});
  EXPECT_EQ(small["targets"], 2'999);
  EXPECT_EQ(small["loss"], evaluated(eval + Words{"--pass", "100"})["loss"]);
  expect_refused(Words{"eval", "--data", "held_out.txt", "--device-memory", "16MiB",
                       "--host-memory", "8MiB", "--pass", "8192"} +
                     eval,
                 2, {"--nvme DIR or a smaller --pass"});
}

// Its last norm makes logits that no f32 holds.
TEST_F(EvalCommand, ALossThatIsNotFiniteIsAnError) {
  const std::string golden = STRATA_SOURCE_DIR "/tests/golden/hf_llama_tiny";
  fs::copy(golden, path("model"));
  const std::string file = path("model/model-00003-of-00004.safetensors");
  const std::string text = test::contents_of(file);
  const std::int64_t data =
      models::safetensors_data_offset(std::as_bytes(std::span(text)), std::ssize(text));
  const auto tensors = models::decode_safetensors(
                           std::string_view(text).substr(8, static_cast<std::size_t>(data - 8)),
                           std::ssize(text) - data)
                           .tensors;
  const auto norm =
      std::ranges::find(tensors, "model.norm.weight", &models::SafetensorsTensor::name);
  ASSERT_NE(norm, tensors.end());
  const std::vector<float> huge(static_cast<std::size_t>(norm->bytes) / sizeof(float), 3e38f);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(data + norm->offset_bytes)
      .write(reinterpret_cast<const char*>(huge.data()), norm->bytes);
  const test::ProcessResult result =
      strata({"eval", "--model", "model", "--data", "held_out.txt", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_EQ(result.out, "");
  EXPECT_PRED2(test::mentions, result.err, "its weights are broken");
}

// A byte that changed on the drive is found before anything is computed from it.
TEST_F(EvalCommand, RefusesADamagedCommit) {
  complete("run", {});
  std::fstream store(store_file("run", "run"), std::ios::in | std::ios::out | std::ios::binary);
  store.seekg(0, std::ios::end);
  // All but the header and the superblocks: a slot begins with its weights, a sixth of it.
  const std::streamoff bytes = store.tellg();
  const std::vector<char> damage(static_cast<std::size_t>(bytes - bytes / 24), 0x55);
  store.seekp(bytes / 24);
  store.write(damage.data(), static_cast<std::streamsize>(damage.size()));
  store.close();
  const test::ProcessResult result = strata({"eval", "--model", "run", "--data", "text.txt"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_PRED2(test::mentions, result.err, "are not those that were written there");
  EXPECT_FALSE(test::mentions(result.out, "loss"));
}

}  // namespace
}  // namespace strata::engine
