// Every event wait of the step is needed, and a missing one is a race that ThreadSanitizer reports:
// a model is trained with the waits of one kind left out, in a process of its own, which must end
// with a report; with none left out, without.
//
// The regime uses every stream: state on NVMe, activations on the host with stores and loads,
// several micro-batches, a deferred optimizer. The second rank, whose collectives bring in two
// streams and two kinds of wait, is a mirror of the first: what is computed makes no sense, but
// every byte moves as it does between ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"
#include "engine/step/trainer.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "kernels/device/cpu_device.h"
#include "tests/support/engine_run.h"
#include "tests/support/temporary_folder.h"

namespace strata::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

constexpr int kNoKind = -1;
constexpr int kSteps = 20;  // nearly every race shows in the first
constexpr int kVocabulary = 4096;
constexpr int kRaceReported = 66;  // ThreadSanitizer's default exitcode

// Rank 0 of two, of which the other always has the same bytes.
class MirrorCommunicator final : public comm::Communicator {
 public:
  const comm::Topology& topology() const override { return topology_; }
  StagingBytes staging_bytes() const override { return {}; }
  DeviceBuffer attach(Device&) override { return {}; }
  void all_gather(Stream& stream, void* full, std::int64_t shard_bytes) override {
    stream.copy(static_cast<std::byte*>(full) + shard_bytes, full, shard_bytes);
  }
  void reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) override {
    as_cpu(stream).launch("reduce", [=](CpuDevice&) {
      for (std::int64_t i = 0; i < shard_elements; ++i) full[i] *= 2;
    });
  }
  void barrier() override {}
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
    std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(mine.size()));
  }
  void abort(int) noexcept override {}

 private:
  comm::Topology topology_{.world_size = 2, .local_world_size = 2};
};

std::unique_ptr<comm::Communicator> make_communicator(int ranks) {
  if (ranks == 1) return comm::make_single_rank_communicator();
  return std::make_unique<MirrorCommunicator>();
}

// The copy of the token table's gradient takes longer than backward's next unit, the final norm:
// the unit after that finds its gradient slot still full.
engine::Options every_stream(const TemporaryFolder& folder) {
  engine::Options options;
  options.model = fmt::format("gpt2:layers=3,hidden=48,heads=3,context=32,vocab={}", kVocabulary);
  options.data = folder.path("tokens.bin");
  options.device_memory = 48 * kMiB;
  options.host_memory = 96 * kMiB;
  options.place = "all=nvme";
  options.activations = "host";
  options.global_batch = 6;
  options.on_nonfinite = "skip";  // a race may well make nonsense of the numbers
  options.threads = 1;
  return options;
}

void train_without(int left_out, int ranks) {
  const TemporaryFolder folder;
  write_tokens(folder.path("tokens.bin"), 1000, kVocabulary);
  const engine::Options options = every_stream(folder);
  const auto comm = make_communicator(ranks);
  const engine::RunSetup setup =
      engine::make_run_setup(options, comm->topology(), comm->staging_bytes());
  const engine::TrainingData data =
      engine::open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
  FailureLatch failure;
  WorkerSet workers(setup.threads);
  Budget host_budget("host memory", setup.plan.host_memory_bytes);
  CpuDevice device({setup.plan.device_memory_bytes, left_out}, host_budget, workers, failure,
                   nullptr);
  ops::attach_cpu_ops(device, setup.isa, setup.op_limits, Dtype::bf16, {});
  io::VolumeOptions storage_options;
  storage_options.directories = {{folder.path(), 0}};
  storage_options.capacity_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  const auto storage = io::create_volume(storage_options, nullptr);
  engine::Trainer trainer(setup, {device, workers, *comm, failure, storage.get(), nullptr});
  const engine::SampleOrder order(data.train->count(), options.seed);
  for (int step = 0; step < kSteps; ++step) {
    trainer.step(*data.train, order, step * options.global_batch, options.lr);
  }
  trainer.drain();
}

[[noreturn]] void train_and_exit(int left_out, int ranks) {
  try {
    train_without(left_out, ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(EXIT_FAILURE);
  }
  std::exit(EXIT_SUCCESS);
}

// In the processes that are started from here on.
void stop_at_first_report() {
  const char* const set = std::getenv("TSAN_OPTIONS");
  const std::string options = std::string(set == nullptr ? "" : set) + " halt_on_error=1";
  ::setenv("TSAN_OPTIONS", options.c_str(), 1);
}

struct Case {
  int left_out;  // a WaitFor, or kNoKind
  int ranks;
};

std::string name_of(const Case& test) {
  std::string name =
      test.left_out == kNoKind ? "none" : strata::name_of(static_cast<WaitFor>(test.left_out));
  if (const std::size_t colon = name.find(": "); colon != std::string::npos) {
    name.erase(0, colon + 2);
  }
  std::ranges::replace(name, ' ', '_');
  return name + (test.ranks == 1 ? "_1_rank" : "_2_ranks");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2}) {
    all.push_back({kNoKind, ranks});
    for (int kind = 0; kind < kWaitForKinds; ++kind) {
      const auto reason = static_cast<WaitFor>(kind);
      const bool of_collectives =
          reason == WaitFor::shard_on_device || reason == WaitFor::gradient_reduced;
      // A commit's: tests/engine/checkpoint/committer_device_test.cc.
      if (reason == WaitFor::state_written) continue;
      if (ranks > 1 || !of_collectives) all.push_back({kind, ranks});
    }
  }
  return all;
}

class MissingWait : public testing::TestWithParam<Case> {};

TEST_P(MissingWait, IsARace) {
  if (!kThreadSanitizer) GTEST_SKIP() << "needs a build with STRATA_SANITIZE=thread";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  stop_at_first_report();
  const auto [left_out, ranks] = GetParam();
  const bool complete = left_out == kNoKind;
  EXPECT_EXIT(train_and_exit(left_out, ranks),
              testing::ExitedWithCode(complete ? EXIT_SUCCESS : kRaceReported),
              complete ? "" : "data race");
}

INSTANTIATE_TEST_SUITE_P(Kinds, MissingWait, testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace strata::test
