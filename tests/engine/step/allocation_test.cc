// The step loop allocates nothing once each thing has happened once: neither malloc nor operator
// new is called, by any thread, with state on any tier.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/run/progress.h"
#include "engine/run/run_log.h"
#include "engine/run/training_run.h"
#include "tests/support/engine_run.h"
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
    Options options = small_run(folder_, "gpt2:layers=3,hidden=48,heads=3,context=32", 48 * kMiB);
    options.global_batch = 5;
    options.micro_batch = 2;
    options.chunk_size = 64 * kKiB;
    options.threads = 2;
    options.place = test.place;
    options.activations = test.activations;
    options.clip_norm = test.clip_norm;
    options.pass = test.pass;
    options.precision = test.precision;
    options.matmul_dtype = test.precision;
    return options;
  }

  TemporaryFolder folder_;
};

// The loop as a user runs it: steps, progress and log. Armed after the second step, in which the
// update of the first is made: the thread that makes it then enters oneTBB's arena for the first
// time, for which the system allocates.
TEST_P(Allocation, NoneInTheLoopOverSteps) {
  Options options = this->options();
  options.steps = 8;
  EngineRun run(options);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  engine::Progress progress(nowhere, engine::ProgressStyle::plain, options.steps, 0);
  engine::RunLog log({folder_.path("log.jsonl")});
  engine::TrainingRun loop(run.setup(), run.data(), run.session(), run.trainer(),
                           engine::TrainingRun::Clock::now(), {&progress, &log, nullptr});
  loop.train_step(1);
  loop.train_step(2);
  HeapCalls::arm();
  for (int step = 3; step <= 6; ++step) loop.train_step(step);
  HeapCalls::disarm();
  ::close(nowhere);
  EXPECT_EQ(HeapCalls::not_from(kExcluded), "");
}

INSTANTIATE_TEST_SUITE_P(Regimes, Allocation,
                         ::testing::Values(Case{"device", "all=device", "device"},
                                           Case{"host", "all=host", "host"},
                                           Case{"nvme", "all=nvme", "nvme"},
                                           Case{"mixed", "weights=device", "host"},
                                           Case{"nvme_in_backward", "all=nvme", "nvme", 0},
                                           Case{"passes", "all=nvme", "nvme", 1, 2},
                                           Case{"f32", "all=nvme", "nvme", 1, 100, "f32"}),
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
