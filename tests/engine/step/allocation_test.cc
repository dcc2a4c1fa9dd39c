// The step loop allocates nothing once each thing has happened once: neither malloc nor operator
// new is called, by any thread, with state on any tier.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "engine/run/progress.h"
#include "engine/run/run_log.h"
#include "engine/run/stop_watch.h"
#include "engine/run/training_run.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/heap_calls.h"

namespace strata::test {
namespace {

using engine::Options;

// Not ours to change, and bounded: oneDNN makes a small execution context for every primitive it
// executes, gives it back at once, and has no interface that avoids it; OpenMP comes with it.
constexpr std::string_view kExcluded[] = {"libdnnl", "libgomp"};

struct Case {
  std::string name;
  std::string place;
  std::string activations;
  double clip_norm = 1;
  std::int64_t pass = 100;
  std::string precision = "bf16";
  std::optional<engine::CheckpointInterval> checkpoint_every = {};  // in a run with a folder
  const char* model = "gpt2:layers=3,hidden=48,heads=3,context=32";
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Allocation : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!kHeapCallsAreCounted) GTEST_SKIP() << "the sanitizer has its own malloc";
    write_text(folder_.path("text.txt"), 8000);
  }

  Options options() const {
    const Case& test = GetParam();
    Options options = small_run(folder_, test.model, 48 * kMiB);
    options.global_batch = 5;
    options.micro_batch = 2;
    options.chunk_size = 64 * kKiB;
    options.threads = 2;
    options.place = test.place;
    options.activations = test.activations;
    options.clip_norm = test.clip_norm;
    options.pass = test.pass;
    options.precision = test.precision;
    options.matmul_dtype = forced_arithmetic(test.precision);
    if (test.checkpoint_every) options.run = folder_.path("run");
    options.checkpoint_every = test.checkpoint_every;
    return options;
  }

  TemporaryFolder folder_;
};

// Training data that counts heap calls from the read of the first sequence of a step to that of
// another.
class ArmedSamples final : public engine::Samples {
 public:
  ArmedSamples(std::unique_ptr<engine::Samples> samples, std::int64_t sequences_per_step,
               std::int64_t first_step, std::int64_t end_step)
      : samples_(std::move(samples)),
        arm_at_((first_step - 1) * sequences_per_step),
        disarm_at_((end_step - 1) * sequences_per_step) {}

  std::int64_t count() const override { return samples_->count(); }
  std::int64_t tokens() const override { return samples_->tokens(); }
  engine::SampleLayout layout() const override { return samples_->layout(); }
  std::optional<std::int64_t> targets_per_sample() const override {
    return samples_->targets_per_sample();
  }
  std::string description() const override { return samples_->description(); }
  std::int64_t rows(std::int64_t sample) const override { return samples_->rows(sample); }
  void read(std::int64_t sample, const engine::SampleRows& rows) const override {
    const std::int64_t sequence = sequences_++;
    if (sequence == disarm_at_) HeapCalls::disarm();
    samples_->read(sample, rows);
    if (sequence == arm_at_) HeapCalls::arm();
  }
  std::int64_t sequences() const { return sequences_; }  // read so far

 private:
  std::unique_ptr<engine::Samples> samples_;
  const std::int64_t arm_at_;
  const std::int64_t disarm_at_;
  mutable std::atomic<std::int64_t> sequences_{0};
};

// The loop as a user runs it: steps, commits, progress and log. Armed with the data of the fourth
// step, which may be read during the third: in the second the update of the first is made, and the
// thread that makes it then enters oneTBB's arena for the first time, for which the system
// allocates.
TEST_P(Allocation, NoneInTheLoopOverSteps) {
  Options options = this->options();
  options.steps = 8;
  EngineRun run(options);
  engine::TrainingData data =
      engine::open_training_data(options, run.setup().model.vocabulary, run.setup().batch.seq_len);
  auto armed = std::make_unique<ArmedSamples>(std::move(data.train), options.global_batch, 4, 7);
  const ArmedSamples& samples = *armed;
  data.train = std::move(armed);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  engine::Progress progress(nowhere, engine::ProgressStyle::plain, options.steps, 0);
  engine::RunLog log({folder_.path("log.jsonl")});
  FailureLatch failure;
  engine::StepRequests requests{0};
  engine::StopWatch stop({}, requests, failure);
  engine::TrainingRun loop(
      run.setup(), data, run.session(), run.trainer(), engine::TrainingRun::Clock::now(),
      {stop, requests, run.durable(), nullptr, nullptr}, {&progress, &log, nullptr});
  EXPECT_EQ(loop.run(), engine::RunEnd::complete);
  ::close(nowhere);
  EXPECT_EQ(samples.sequences(), options.steps * options.global_batch);
  EXPECT_EQ(HeapCalls::not_from(kExcluded), "");
}

constexpr engine::CheckpointInterval kEveryStep{1, 0};
constexpr const char* kQwen3 =
    "qwen3:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,intermediate=80,context=32";

INSTANTIATE_TEST_SUITE_P(
    Regimes, Allocation,
    ::testing::Values(
        Case{"device", "all=device", "device"}, Case{"host", "all=host", "host"},
        Case{"nvme", "all=nvme", "nvme"}, Case{"mixed", "weights=device", "host"},
        Case{"nvme_in_backward", "all=nvme", "nvme", 0}, Case{"passes", "all=nvme", "nvme", 1, 2},
        Case{"f32", "all=nvme", "nvme", 1, 100, "f32"},
        Case{"qwen3", "all=nvme", "nvme", 1, 100, "bf16", {}, kQwen3},
        Case{"commits", "all=nvme", "nvme", 1, 100, "bf16", kEveryStep},
        Case{"commits_mixed", "weights=device,moments=host", "host", 1, 100, "bf16", kEveryStep},
        Case{"commits_in_backward", "weights=host", "nvme", 0, 100, "bf16", kEveryStep}),
    [](const auto& info) { return info.param.name; });

TEST(HeapCalls, EveryKindIsSeen) {
  if (!kHeapCallsAreCounted) GTEST_SKIP() << "the sanitizer has its own malloc";
  HeapCalls::arm();
  void* volatile memory = std::malloc(10);
  memory = std::realloc(memory, 20);
  std::free(memory);
  memory = std::calloc(1, 10);
  std::free(memory);
  memory = std::aligned_alloc(64, 64);
  std::free(memory);
  ::operator delete(::operator new(10));
  HeapCalls::disarm();
  EXPECT_EQ(HeapCalls::count(), 5u);
  EXPECT_NE(HeapCalls::not_from(kExcluded), "");
}

}  // namespace
}  // namespace strata::test
