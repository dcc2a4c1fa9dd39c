#include "io/thread_engine.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "io/file_descriptor.h"
#include "kernels/base/error.h"
#include "tests/io/engine_harness.h"
#include "tests/io/loop_mount.h"
#include "tests/io/scratch_storage.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

const auto factories = testing::Values(StorageFactory{
    "threads",
    [] { return make_scratch_storage(EngineKind::threads, kConformanceCapacityBytes); }});

INSTANTIATE_TEST_SUITE_P(Threads, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(Threads, StorageConformanceDeathTest, factories, storage_name);

class ThreadEngineTest : public testing::Test {
 protected:
  EngineHarness harness_;
};

TEST_F(ThreadEngineTest, CarriesOutMoreRequestsThanItHasThreads) {
  ThreadEngine engine(harness_.file().descriptor(), "/nvme/state", kHarnessDepth);
  EXPECT_EQ(engine.description(), "16 threads");
  harness_.expect_round_trip(engine);
  harness_.expect_round_trip(engine);
}

TEST_F(ThreadEngineTest, HasNoMoreThreadsThanRequestsCanBeInFlight) {
  ThreadEngine engine(harness_.file().descriptor(), "/nvme/state", 3);
  EXPECT_EQ(engine.description(), "3 threads");
}

TEST_F(ThreadEngineTest, AnErrorIsTheResultOfItsRequest) {
  const FileDescriptor write_only(open("/dev/null", O_WRONLY | O_CLOEXEC));
  ThreadEngine engine(write_only.get(), "/dev/null", kHarnessDepth);
  const auto results =
      EngineHarness::carry_out(engine, {harness_.request(Operation::read, 0),
                                        harness_.request(Operation::write, 1),
                                        {{Operation::flush, 0, AlignedSpan()}, 7}});
  EXPECT_EQ(results.at(100), -EBADF);
  EXPECT_EQ(results.at(101), kHarnessBlockBytes);
  EXPECT_EQ(results.at(7), -EINVAL);  // a device without storage has nothing to flush
}

TEST_F(ThreadEngineTest, TheCallerMayCloseItsDescriptor) {
  FileDescriptor descriptor(dup(harness_.file().descriptor()));
  ThreadEngine engine(descriptor.get(), "/nvme/state", kHarnessDepth);
  descriptor = FileDescriptor();
  harness_.expect_round_trip(engine);
}

TEST_F(ThreadEngineTest, AClosedDescriptorIsAnErrorThatNamesTheFile) {
  try {
    ThreadEngine(-1, "/nvme/state", kHarnessDepth);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "duplicate /nvme/state: Bad file descriptor (errno 9)");
  }
}

TEST_F(ThreadEngineTest, EndsWithRequestsInFlight) {
  for (int round = 0; round < 20; ++round) {
    ThreadEngine engine(harness_.file().descriptor(), "/nvme/state", kHarnessDepth);
    EXPECT_EQ(engine.submit(harness_.requests(Operation::read)).accepted,
              static_cast<std::size_t>(kHarnessDepth));
  }
}

int threads_of_this_process() {
  const auto entries = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

TEST_F(ThreadEngineTest, EndsThoughTheDriveIsStuck) {
  LoopMount mount(32 * kMiB);
  if (!mount.mounted()) GTEST_SKIP() << "no right to make and mount loop devices";
  DirectFile file = open_scratch_file(mount.directory());
  preallocate(file, kHarnessBytes);
  if (!mount.freeze()) GTEST_SKIP() << "no right to freeze a file system";
  const int threads = threads_of_this_process();
  {
    ThreadEngine engine(file.descriptor(), file.path(), kHarnessDepth);
    EXPECT_EQ(engine.submit(harness_.requests(Operation::write)).accepted,
              static_cast<std::size_t>(kHarnessDepth));
    std::array<Engine::Completion, 1> completions;
    EXPECT_EQ(engine.wait(completions, std::chrono::milliseconds(100)), 0u);
  }
  EXPECT_GT(threads_of_this_process(), threads);  // left in the kernel
  EXPECT_TRUE(mount.thaw());
  while (threads_of_this_process() > threads) std::this_thread::yield();
}

TEST_F(ThreadEngineTest, MoreRequestsThanItsDepthAreAProgrammerError) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  ThreadEngine engine(harness_.file().descriptor(), "/nvme/state", 2);
  EXPECT_DEATH(static_cast<void>(engine.submit(harness_.requests(Operation::read))),
               "more requests than the queue depth");
}

}  // namespace
}  // namespace strata::io
