// The plan never lies: options drawn at random are either refused at the start, with a message
// whose advice is enough to start, or run within every budget, holding and moving just what was
// planned.
//
// A failure prints the seed and the command line. Seeds are the same in every run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <random>
#include <regex>
#include <sstream>

#include "engine/options/option_check.h"
#include "engine/options/option_parse.h"
#include "engine/run/storage_check.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/reserved_bytes.h"

namespace strata::test {
namespace {

using engine::Options;
using offload::Durability;
using offload::Tier;
using offload::Traffic;

constexpr int kSeeds = 200;
constexpr int kRefusalsMax = 3;  // of a budget, then of the plan's lack of a directory

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string text = "strata train";
  for (const std::string& word : words) text += fmt::format(" '{}'", word);
  return text;
}

// A command line, drawn from a seed.
class Draw {
 public:
  Draw(unsigned seed, const TemporaryFolder& folder) : random_(seed), folder_(folder) {}

  Words words() {
    draw_model();
    draw_tiers();
    draw_batch();
    draw_optimizer();
    draw_run();
    return std::move(words_);
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  bool one_in(int n) { return below(n) == 0; }
  const char* one_of(std::initializer_list<const char*> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
  void add(const std::string& name, const std::string& value) {
    words_.push_back("--" + name);
    words_.push_back(value);
  }
  // Nothing where the value drawn is empty: the default.
  void add_one_of(const std::string& name, std::initializer_list<const char*> values) {
    const std::string value = one_of(values);
    if (!value.empty()) add(name, value);
  }

  void draw_model() {
    add("model", one_of({"gpt2:layers=2,hidden=48,heads=3,context=32",
                         "gpt2:layers=3,hidden=64,heads=2,context=32",
                         "llama:layers=2,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32",
                         "qwen3:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,intermediate=80,"
                         "context=32"}));
    add("data", folder_.path("text.txt"));
    add_one_of("seq-len", {"", "16", "32"});
    add_one_of("threads", {"1", "2", "3"});
    const bool f32 = one_in(4);
    if (f32) add("precision", "f32");
    add("matmul-dtype", f32 ? "f32" : forced_arithmetic(one_of({"bf16", "bf16", "f32"})));
    words_.push_back("--from-scratch");
  }

  // From far too little to ample: the models need 1 to 20 MiB of either.
  std::string budget() { return std::to_string((512 << below(8)) + below(256)) + "KiB"; }

  void draw_tiers() {
    add("device-memory", budget());
    add("host-memory", budget());
    std::string place;
    for (const char* kind : {"weights", "remainder", "moments", "gradients"}) {
      const std::string tier = one_of({"", "", "device", "host", "nvme"});
      if (!tier.empty()) place += (place.empty() ? "" : ",") + std::string(kind) + "=" + tier;
    }
    if (!place.empty() && !one_in(3)) add("place", place);
    add_one_of("prefetch", {"", "0", "1", "2", "3", "4", "5"});
    add_one_of("chunk-size", {"", "16KiB", "48KiB", "200KiB", "1MiB"});
    add_one_of("activations", {"", "", "device", "host", "nvme"});
    add_one_of("recompute", {"", "off"});
    if (!one_in(4)) add("nvme", folder_.path("nvme"));
    add_one_of("io-engine", {"", "threads"});
  }

  void draw_batch() {
    const int global = 1 + below(9);
    add("global-batch", std::to_string(global));
    add("micro-batch", std::to_string(1 + below(std::min(4, global))));
    add_one_of("pass", {"", "1", "2", "3", "5"});
  }

  void draw_optimizer() {
    add_one_of("optimizer", {"", "", "adam", "lion"});
    add_one_of("moments", {"", "", "bf16", "int8"});
    add_one_of("grad-dtype", {"", "bf16"});
    add_one_of("clip-norm", {"", "0", "0.5"});
    add_one_of("on-nonfinite", {"", "skip"});
    add_one_of("lr-scale", {"", "", "", "*.1.*=0", "*attn*=0", "*=0.5"});
  }

  void draw_run() {
    if (!one_in(3)) return;
    add("run", folder_.path("run"));
    add_one_of("checkpoint-every", {"", "1", "0"});
  }

  std::mt19937 random_;
  const TemporaryFolder& folder_;
  Words words_;
};

Options parsed(const Words& words) {
  const Options options = engine::parse_options({"train", "", engine::CommandKind::train}, words);
  Options checked = options;
  checked.chunk_size.reset();  // shards are so short here that transfers may be, too
  engine::check_options(checked);
  return options;
}

// The options that come after "; " or "so would ", up to `end`.
Words advised(const std::string& message, const std::string& pattern) {
  std::smatch match;
  if (!std::regex_search(message, match, std::regex(pattern))) return {};
  std::istringstream text(match[1]);
  return {std::istream_iterator<std::string>(text), {}};
}

// Later words win.
Words with(Words words, const Words& more) {
  for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
    const auto had = std::find(words.begin(), words.end(), more[i]);
    if (had != words.end()) {
      *(had + 1) = more[i + 1];
    } else {
      words.insert(words.end(), {more[i], more[i + 1]});
    }
  }
  return words;
}

engine::RunSetup setup_of(const Options& options) {
  const auto comm = comm::make_single_rank_communicator();
  return make_setup(options, *comm);
}

// What else the message says would fit does.
void expect_other_advice_fits(const Words& words, const std::string& message) {
  const Words other = advised(message, "so would (--.*)$");
  if (other.empty()) return;
  EXPECT_NO_THROW(setup_of(parsed(with(words, other)))) << message;
}

// Follows the advice of each refusal until the run starts.
Words that_start(Words words, const TemporaryFolder& folder) {
  for (int refusals = 0; refusals <= kRefusalsMax; ++refusals) {
    const Options options = parsed(words);
    try {
      const engine::RunSetup setup = setup_of(options);
      const engine::NvmeSpace space = engine::check_nvme_space(setup);
      if (space.needed_bytes == 0 || !space.directories.empty()) return words;
      words = with(words, {"--nvme", folder.path("nvme")});
    } catch (const engine::PlanDoesNotFit& refusal) {
      const std::string message = refusal.what();
      expect_other_advice_fits(words, message);
      const Words advice = advised(message, "; (--.*?) would fit");
      EXPECT_FALSE(advice.empty()) << message;
      words = with(words, advice);
    }
  }
  ADD_FAILURE() << "refused though its advice was followed";
  return {};
}

void expect_within_budgets(EngineRun& run) {
  const offload::Plan& plan = run.plan();
  const Options& options = run.setup().options;
  const Budget& device = run.session().device().device_budget();
  const Budget& host = run.session().device().host_budget();
  EXPECT_EQ(test::held_bytes(device), test::planned_bytes(plan, Tier::device));
  EXPECT_EQ(test::held_bytes(host), test::planned_bytes(plan, Tier::host));
  EXPECT_LE(device.peak_bytes(), *options.device_memory);
  EXPECT_LE(host.peak_bytes(), *options.host_memory);
  const io::Volume* const volume = run.session().volume();
  EXPECT_EQ(volume == nullptr ? 0 : volume->capacity_bytes(), plan.total_bytes(Tier::nvme));
}

// Two steps, with a commit between them where the run makes any.
void expect_as_planned(const Options& options) {
  EngineRun run(options);
  const Traffic plan = run.plan().step_traffic();
  const bool deferred = run.plan().update == offload::UpdateTime::deferred;
  const auto expect_charged = [&](const engine::StepResult& step) {
    Traffic charged = step.traffic;
    if (deferred) charged += run.trainer().update_traffic();
    EXPECT_EQ(charged, plan);
  };
  const engine::StepResult first = run.step();
  if (run.plan().durability == Durability::commits) run.commit();
  const engine::StepResult second = run.step();
  expect_charged(first);
  run.trainer().drain();
  expect_charged(second);
  if (run.durable() != nullptr) run.commit_now();
  expect_within_budgets(run);
}

class RandomOptions : public ::testing::Test {
 protected:
  RandomOptions() {
    write_text(folder_.path("text.txt"), 4000);
    std::filesystem::create_directory(folder_.path("nvme"));
  }
  TemporaryFolder folder_;
};

TEST_F(RandomOptions, AreRefusedWithAdviceOrRunAsPlanned) {
  int started = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Words drawn = Draw(seed, folder_).words();
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + joined(drawn));
    try {
      const Words words = that_start(drawn, folder_);
      if (words.empty()) continue;
      started += words == drawn;
      SCOPED_TRACE("as advised: " + joined(words));
      expect_as_planned(parsed(words));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::filesystem::remove_all(folder_.path("run"));
  }
  // So that neither is seldom.
  EXPECT_GT(started, kSeeds / 5);
  EXPECT_LT(started, kSeeds * 4 / 5);
}

}  // namespace
}  // namespace strata::test
