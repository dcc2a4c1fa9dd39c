#include "io/fault_storage.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "tests/io/failure_of.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

const auto factories =
    testing::Values(StorageFactory{"delays", [] {
                                     FaultRules rules;
                                     rules.seed = 11;
                                     rules.delay_us_max = 200;
                                     return make_fault_storage(kConformanceCapacityBytes, rules);
                                   }});

INSTANTIATE_TEST_SUITE_P(Fault, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(Fault, StorageConformanceDeathTest, factories, storage_name);

class FaultStorageTest : public testing::Test {
 protected:
  void open(const FaultRules& rules) { storage_ = make_fault_storage(kMiB, rules); }
  std::string write_failure(std::int64_t offset_bytes, std::int64_t bytes) {
    IoGroup group;
    storage_->write(offset_bytes, buffer_.span(0, bytes), group);
    return failure_of(group);
  }
  std::string read_failure(std::int64_t offset_bytes, std::int64_t bytes) {
    IoGroup group;
    storage_->read(offset_bytes, buffer_.span(0, bytes), group);
    return failure_of(group);
  }
  // Which of the first hundred writes fail.
  std::vector<int> failing_writes(std::uint64_t seed, double error_probability) {
    FaultRules rules;
    rules.seed = seed;
    rules = rules.with(Fault::error, error_probability);
    open(rules);
    std::vector<int> failing;
    for (int i = 0; i < 100; ++i) {
      if (!write_failure(0, kPageBytes).empty()) failing.push_back(i);
    }
    return failing;
  }

  Budget budget_{"host memory", 4 * kMiB};
  AlignedBuffer buffer_{budget_, "test", kMiB};
  std::unique_ptr<Storage> storage_;
};

TEST_F(FaultStorageTest, FailsTheRequestAskedForAndNamesTheSeed) {
  FaultRules rules;
  rules.seed = 42;
  rules.fail_request = 1;
  open(rules);
  EXPECT_EQ(write_failure(0, kPageBytes), "");
  EXPECT_EQ(read_failure(8192, kPageBytes),
            "read faults of seed 42 on memory, 1 MiB at offset 8192, 4096 bytes: Input/output "
            "error (errno 5)");
  EXPECT_EQ(read_failure(8192, kPageBytes), "");
}

TEST_F(FaultStorageTest, TheSeedDecidesWhichRequestsFail) {
  const std::vector<int> failing = failing_writes(1, 0.3);
  EXPECT_EQ(failing_writes(1, 0.3), failing);
  EXPECT_NE(failing_writes(2, 0.3), failing);
  // Binomial(100, 0.3): mean 30, standard deviation 4.6; five of them either way.
  EXPECT_GT(failing.size(), 7u);
  EXPECT_LT(failing.size(), 53u);
  EXPECT_EQ(failing_writes(1, 0).size(), 0u);
  EXPECT_EQ(failing_writes(1, 1).size(), 100u);
}

TEST_F(FaultStorageTest, IsFullAfterTheBytesItWasGiven) {
  FaultRules rules;
  rules.full_after_bytes = 3 * kPageBytes;
  open(rules);
  EXPECT_EQ(write_failure(0, 2 * kPageBytes), "");
  EXPECT_NE(write_failure(0, 2 * kPageBytes).find("No space left on device (errno 28)"),
            std::string::npos);
  EXPECT_EQ(write_failure(0, kPageBytes), "");
  EXPECT_EQ(read_failure(0, kMiB), "");
}

TEST_F(FaultStorageTest, FlipsOneBitOfTheReadAskedFor) {
  FaultRules rules;
  rules.flip_read = 1;
  open(rules);
  ASSERT_EQ(write_failure(0, kMiB), "");  // zeros
  const auto bits_set = [&] {
    EXPECT_EQ(read_failure(0, kMiB), "");
    int bits = 0;
    for (std::int64_t i = 0; i < kMiB; ++i) {
      bits += std::popcount(static_cast<unsigned char>(buffer_.data()[i]));
    }
    return bits;
  };
  EXPECT_EQ(bits_set(), 0);
  EXPECT_EQ(bits_set(), 1);
  EXPECT_EQ(bits_set(), 0);
}

// Two writes of the same page in flight at once may land in either order: with many pairs both do.
TEST_F(FaultStorageTest, CompletesOutOfOrder) {
  constexpr int kPairs = 64;
  FaultRules rules;
  rules.delay_us_max = 2000;
  open(rules);
  AlignedBuffer second(budget_, "test", kMiB);
  std::memset(second.data(), 1, kMiB);
  IoGroup group;
  for (int i = 0; i < kPairs; ++i) {
    const std::int64_t at = i * kPageBytes;
    storage_->write(at, buffer_.span(at, kPageBytes), group);
    storage_->write(at, second.span(at, kPageBytes), group);
  }
  group.wait();
  ASSERT_EQ(read_failure(0, kPairs * kPageBytes), "");
  int overtaken = 0;
  for (int i = 0; i < kPairs; ++i) overtaken += buffer_.data()[i * kPageBytes] == std::byte{0};
  EXPECT_GT(overtaken, 0);
  EXPECT_LT(overtaken, kPairs);
}

}  // namespace
}  // namespace strata::io
