#include "io/uring_engine.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "io/uring_probe.h"
#include "tests/io/deny_system_call.h"
#include "tests/io/engine_harness.h"
#include "tests/io/scratch_storage.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

const auto factories = testing::Values(StorageFactory{
    "uring", [] { return make_scratch_storage(EngineKind::uring, kConformanceCapacityBytes); }});

INSTANTIATE_TEST_SUITE_P(Uring, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(Uring, StorageConformanceDeathTest, factories, storage_name);

class UringEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    const UringSupport support = probe_uring();
    if (!support.usable()) GTEST_SKIP() << support.obstacle;
  }
  UringEngine make_engine() {
    return {harness_.file().descriptor(), "/nvme/state", kHarnessDepth, std::chrono::seconds(1)};
  }

  EngineHarness harness_;
};

TEST_F(UringEngineTest, CarriesOutABatchInOneCall) {
  UringEngine engine = make_engine();
  harness_.expect_round_trip(engine);
  EXPECT_EQ(engine.description(), "io_uring, registered file");
}

TEST_F(UringEngineTest, AnErrorIsTheResultOfItsRequest) {
  UringEngine engine(-1, "/nvme/state", kHarnessDepth, std::chrono::seconds(1));
  const auto results = EngineHarness::carry_out(engine, {harness_.request(Operation::read, 0)});
  EXPECT_EQ(results.at(100), -EBADF);
}

// Requests within registered memory, across its end and outside it.
TEST_F(UringEngineTest, UsesRegisteredMemoryWhereRequestsLieInIt) {
  UringEngine engine = make_engine();
  const AlignedBuffer& buffer = harness_.buffer();
  engine.register_memory(buffer.span(kHarnessBytes / 2, kHarnessBytes / 4));
  engine.register_memory(buffer.span(kHarnessBlockBytes / 2, kHarnessBlockBytes));
  if (!probe_uring().registers_buffers) GTEST_SKIP() << engine.description();
  EXPECT_EQ(engine.description(), "io_uring, registered file, 2 of 2 buffers registered");
  harness_.expect_round_trip(engine);
}

// Other memory at the same address is other memory: what was registered may be gone.
TEST_F(UringEngineTest, ForgetsMemoryThatIsUnregistered) {
  if (!probe_uring().registers_buffers) GTEST_SKIP() << "buffers cannot be registered";
  UringEngine engine = make_engine();
  const AlignedBuffer& buffer = harness_.buffer();
  engine.register_memory(buffer.span(0, kHarnessBytes / 2));
  engine.register_memory(buffer.span(kHarnessBytes / 2, kHarnessBytes / 2));
  engine.unregister_memory(buffer.span(0, kHarnessBytes / 2));
  EXPECT_EQ(engine.description(), "io_uring, registered file, 1 of 1 buffers registered");
  ASSERT_EQ(mmap(buffer.data(), kHarnessBytes / 2, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            buffer.data());
  harness_.expect_round_trip(engine);
}

TEST_F(UringEngineTest, PlacesOfUnregisteredMemoryAreUsedAgain) {
  if (!probe_uring().registers_buffers) GTEST_SKIP() << "buffers cannot be registered";
  UringEngine engine = make_engine();
  for (int i = 0; i < 3000; ++i) {  // more than the table has
    engine.register_memory(harness_.buffer().span());
    engine.unregister_memory(harness_.buffer().span());
  }
  engine.register_memory(harness_.buffer().span());
  EXPECT_EQ(engine.description(), "io_uring, registered file, 1 of 1 buffers registered");
  harness_.expect_round_trip(engine);
}

TEST_F(UringEngineTest, MoreRequestsThanItsDepthAreAProgrammerError) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  UringEngine engine(harness_.file().descriptor(), "/nvme/state", 2, std::chrono::seconds(1));
  EXPECT_DEATH(static_cast<void>(engine.submit(harness_.requests(Operation::read))),
               "more requests than the queue depth");
}

// Drops CAP_IPC_LOCK, with which RLIMIT_MEMLOCK does not bind.
bool drop_ipc_lock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  auto& word = data[CAP_TO_INDEX(CAP_IPC_LOCK)];
  word.effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  word.permitted &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, data.data()) == 0;
}

class UringEngineDeathTest : public UringEngineTest {
 protected:
  UringEngineDeathTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  // The child's: works through an engine with registered memory and says what it was.
  [[noreturn]] void work_and_exit() {
    {
      UringEngine engine = make_engine();
      engine.register_memory(harness_.buffer().span());
      harness_.expect_round_trip(engine);
      std::fputs(engine.description().c_str(), stderr);
    }
    std::_Exit(HasFailure() ? 4 : 3);
  }
};

TEST_F(UringEngineDeathTest, ASmallMemlockLimitCostsTheRegistrationOnly) {
  if (!probe_uring().registers_buffers) GTEST_SKIP() << "buffers cannot be registered";
  const auto body = [&] {
    const rlimit limit{64 * kKiB, 64 * kKiB};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || !drop_ipc_lock()) std::_Exit(77);
    work_and_exit();
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "io_uring, registered file, 0 of 1 buffers registered: RLIMIT_MEMLOCK");
}

TEST_F(UringEngineDeathTest, WhereNothingCanBeRegisteredItWorksWithout) {
  const auto body = [&] {
    deny_system_call(__NR_io_uring_register, EPERM);
    work_and_exit();
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "io_uring, 0 of 1 buffers registered: Operation not permitted");
}

TEST_F(UringEngineDeathTest, AForbiddenRingIsAnErrorThatNamesTheFile) {
  const auto body = [&] {
    deny_system_call(__NR_io_uring_setup, EPERM);
    try {
      make_engine();
    } catch (const IoError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(3);
    }
    std::_Exit(4);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(3),
              "io_uring with a queue depth of 32 for /nvme/state: Operation not permitted");
}

}  // namespace
}  // namespace strata::io
