// A request allocates nothing: every operator new of this executable is counted.
#include <gtest/gtest.h>

#include <cstdint>

#include "io/fault_storage.h"
#include "io/volume.h"
#include "kernels/base/bytes.h"
#include "tests/support/allocation_count.h"

namespace strata::io {
namespace {

// More requests than slots, so that submitters wait, with spans recorded.
std::int64_t allocations_of_a_round(Storage& storage, AlignedSpan buffer) {
  const std::int64_t before = test::allocation_count.load();
  IoGroup group;
  for (int round = 0; round < 4; ++round) {
    for (std::int64_t at = 0; at < buffer.bytes(); at += 64 * kKiB) {
      storage.write(at, buffer.sub(at, 64 * kKiB), group);
    }
    group.wait();
    storage.read(0, buffer, group);
    group.wait();
  }
  return test::allocation_count.load() - before;
}

TEST(Allocation, TheCountSeesOne) {
  const std::int64_t before = test::allocation_count.load();
  ::operator delete(::operator new(8));
  EXPECT_EQ(test::allocation_count.load() - before, 1);
}

class VolumeAllocation : public testing::TestWithParam<EngineKind> {};

TEST_P(VolumeAllocation, AVolumeMakesNonePerRequest) {
  Budget budget("host memory", 16 * kMiB);
  AlignedBuffer buffer(budget, "test", 2 * kMiB);
  Tracer tracer(4096);
  VolumeOptions options;
  options.directories = {{testing::TempDir(), 1e9}, {testing::TempDir(), 3e9}};
  options.engine.kind = GetParam();
  options.capacity_bytes = buffer.bytes();
  options.engine.queue_depth = 4;
  options.stripe_bytes = 64 * kKiB;
  options.engine.request_bytes_max = 32 * kKiB;
  const auto storage = create_volume(options, &tracer);
  storage->register_memory(buffer.span(0, kMiB));
  EXPECT_EQ(allocations_of_a_round(*storage, buffer.span()), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, VolumeAllocation,
                         testing::Values(EngineKind::uring, EngineKind::threads));

TEST(Allocation, MemoryStorageMakesNonePerRequest) {
  Budget budget("host memory", 16 * kMiB);
  AlignedBuffer buffer(budget, "test", 2 * kMiB);
  const auto storage = make_memory_storage(buffer.bytes());
  EXPECT_EQ(allocations_of_a_round(*storage, buffer.span()), 0);
}

}  // namespace
}  // namespace strata::io
