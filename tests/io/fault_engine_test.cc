// Each fault of FaultEngine, alone and certain: what the completion says and what was stored.
#include "io/fault_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

constexpr std::int64_t kCapacityBytes = 16 * kPageBytes;
constexpr std::int64_t kBytes = 4 * kPageBytes;
constexpr std::int64_t kOffsetBytes = 4 * kPageBytes;
constexpr std::uint64_t kTag = 77;

class FaultEngineTest : public testing::Test {
 protected:
  void open(const FaultRules& rules) { engine_.emplace(kCapacityBytes, rules); }
  // With every request that it can befall having this fault.
  void open(Fault fault) { open(FaultRules{}.with(fault, 1)); }

  void submit(Operation operation, std::int64_t offset_bytes, AlignedSpan span, std::uint64_t tag) {
    const Engine::Request request{{operation, offset_bytes, span}, tag};
    ASSERT_EQ(engine_->submit({&request, 1}).accepted, 1u);
  }
  // What is answered, up to the first time that nothing is.
  std::vector<Engine::Completion> answers() {
    std::vector<Engine::Completion> all;
    Engine::Completion batch[4];
    while (const std::size_t count = engine_->wait(batch, std::chrono::milliseconds(3))) {
      all.insert(all.end(), batch, batch + count);
    }
    return all;
  }
  // The results of one request, the number of its answers.
  std::vector<int> results(Operation operation, std::int64_t offset_bytes, AlignedSpan span) {
    submit(operation, offset_bytes, span, kTag);
    std::vector<int> all;
    for (const Engine::Completion& completion : answers()) {
      EXPECT_EQ(completion.tag, kTag);
      all.push_back(completion.result);
    }
    return all;
  }
  std::vector<int> write_ones() {
    std::memset(ones_.data(), 0xFF, kBytes);
    return results(Operation::write, kOffsetBytes, ones_.span());
  }
  // The bits set in each page of the storage.
  std::vector<int> bits_stored() {
    EXPECT_EQ(results(Operation::read, 0, all_.span()), std::vector<int>{kCapacityBytes});
    return bits_of(all_.span());
  }
  static std::vector<int> bits_of(AlignedSpan span) {
    std::vector<int> bits;
    for (std::int64_t page = 0; page < span.bytes(); page += kPageBytes) {
      bits.push_back(0);
      for (std::int64_t i = page; i < page + kPageBytes; ++i) {
        bits.back() += std::popcount(static_cast<unsigned char>(span.data()[i]));
      }
    }
    return bits;
  }
  static std::vector<int> ones_in_pages(int first, int count) {
    std::vector<int> bits(kCapacityBytes / kPageBytes, 0);
    std::fill_n(bits.begin() + first, count, kPageBytes * 8);
    return bits;
  }

  Budget budget_{"host memory", kMiB};
  AlignedBuffer ones_{budget_, "test", kBytes};
  AlignedBuffer all_{budget_, "test", kCapacityBytes};
  std::optional<FaultEngine> engine_;
};

TEST_F(FaultEngineTest, WithoutRulesDoesWhatItIsAskedInOrder) {
  open(FaultRules{});
  EXPECT_EQ(write_ones(), std::vector<int>{kBytes});
  EXPECT_EQ(bits_stored(), ones_in_pages(4, 4));
  for (std::uint64_t tag = 0; tag < 10; ++tag) submit(Operation::flush, 0, {}, tag);
  std::uint64_t expected = 0;
  for (const auto& completion : answers()) {
    EXPECT_EQ(completion.tag, expected++);
    EXPECT_EQ(completion.result, 0);
  }
  EXPECT_EQ(expected, 10u);
  EXPECT_TRUE(engine_->injected().empty());
}

TEST_F(FaultEngineTest, AnErrorTransfersNothing) {
  open(FaultRules{.fail_request = 0});
  EXPECT_EQ(write_ones(), std::vector<int>{-EIO});
  EXPECT_EQ(bits_stored(), ones_in_pages(0, 0));
}

TEST_F(FaultEngineTest, AFullDriveTakesWhatStillFits) {
  open(FaultRules{.full_after_bytes = kBytes + kPageBytes});
  EXPECT_EQ(write_ones(), std::vector<int>{kBytes});
  EXPECT_EQ(write_ones(), std::vector<int>{-ENOSPC});
  EXPECT_EQ(results(Operation::write, 0, ones_.span(0, kPageBytes)), std::vector<int>{kPageBytes});
}

TEST_F(FaultEngineTest, AnInterruptionTransfersNothing) {
  open(Fault::interruption);
  EXPECT_EQ(write_ones(), std::vector<int>{-EINTR});
  EXPECT_EQ(write_ones(), std::vector<int>{-EAGAIN});
  EXPECT_EQ(results(Operation::read, 0, all_.span()), std::vector<int>{-EINTR});
}

TEST_F(FaultEngineTest, AShortTransferTransfersWhatItSays) {
  open(Fault::short_transfer);
  const std::vector<int> result = write_ones();
  ASSERT_EQ(result.size(), 1u);
  EXPECT_GE(result[0], kPageBytes);
  EXPECT_LT(result[0], kBytes);
  // Read page by page: one page is never short.
  int stored = 0;
  for (std::int64_t at = 0; at < kCapacityBytes; at += kPageBytes) {
    EXPECT_EQ(results(Operation::read, at, all_.span(0, kPageBytes)), std::vector<int>{kPageBytes});
    stored += bits_of(all_.span(0, kPageBytes))[0];
  }
  EXPECT_EQ(stored, result[0] * 8);
}

TEST_F(FaultEngineTest, ADuplicateIsAnsweredTwice) {
  open(Fault::duplicate_completion);
  EXPECT_EQ(write_ones(), (std::vector<int>{kBytes, kBytes}));
}

TEST_F(FaultEngineTest, ALostCompletionIsCarriedOut) {
  open(FaultRules{.lose_completion = 0});
  EXPECT_EQ(write_ones(), std::vector<int>{});
  EXPECT_EQ(bits_stored(), ones_in_pages(4, 4));
}

TEST_F(FaultEngineTest, AReadFlipChangesOneBitOnce) {
  open(FaultRules{.flip_read = 1});
  std::vector<int> sums;
  for (int read = 0; read < 3; ++read) {
    const std::vector<int> bits = bits_stored();
    sums.push_back(std::accumulate(bits.begin(), bits.end(), 0));
  }
  EXPECT_EQ(sums, (std::vector<int>{0, 1, 0}));
}

TEST_F(FaultEngineTest, AWriteFlipChangesOneStoredBitAndNotTheSource) {
  open(Fault::write_flip);
  EXPECT_EQ(write_ones(), std::vector<int>{kBytes});
  std::vector<int> bits = bits_stored();
  EXPECT_EQ(std::accumulate(bits.begin(), bits.end(), 0), kBytes * 8 - 1);
  bits = bits_of(ones_.span());
  EXPECT_EQ(std::accumulate(bits.begin(), bits.end(), 0), kBytes * 8);
}

TEST_F(FaultEngineTest, ALostWriteStoresNothing) {
  open(Fault::lost_write);
  EXPECT_EQ(write_ones(), std::vector<int>{kBytes});
  EXPECT_EQ(bits_stored(), ones_in_pages(0, 0));
}

TEST_F(FaultEngineTest, AMisdirectedWriteIsStoredElsewhere) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    open(FaultRules{.seed = seed}.with(Fault::misdirected_write, 1));
    EXPECT_EQ(write_ones(), std::vector<int>{kBytes});
    const InjectedFault fault = engine_->injected().at(0);
    EXPECT_NE(fault.stored_offset_bytes, kOffsetBytes);
    EXPECT_EQ(bits_stored(),
              ones_in_pages(static_cast<int>(fault.stored_offset_bytes / kPageBytes), 4));
  }
}

TEST_F(FaultEngineTest, DelaysReorder) {
  open(FaultRules{.seed = 5, .delay_us_max = 2000});
  for (std::uint64_t tag = 0; tag < 64; ++tag) submit(Operation::flush, 0, {}, tag);
  std::vector<std::uint64_t> tags;
  for (const auto& completion : answers()) tags.push_back(completion.tag);
  EXPECT_EQ(tags.size(), 64u);
  EXPECT_FALSE(std::is_sorted(tags.begin(), tags.end()));
}

// The seed and the number of a request decide; neither delays nor what was answered before do.
TEST_F(FaultEngineTest, TheSameSeedDecidesTheSame) {
  const auto faults_of = [&](std::uint64_t seed, int delay_us_max) {
    FaultRules rules{.seed = seed, .delay_us_max = delay_us_max};
    for (std::size_t fault = 1; fault < kFaults; ++fault) rules.probability[fault] = 0.05;
    open(rules);
    for (int i = 0; i < 300; ++i) {
      submit(i % 2 == 0 ? Operation::write : Operation::read, kOffsetBytes, ones_.span(), 0);
      if (i % 100 == 0 && delay_us_max > 0) answers();
    }
    answers();
    return engine_->injected();
  };
  const std::vector<InjectedFault> faults = faults_of(1, 0);
  EXPECT_EQ(faults_of(1, 50), faults);
  EXPECT_NE(faults_of(2, 0), faults);
  // Of writes 8 kinds in 20, of reads 6: binomial(300, 0.375), mean 112, deviation 8.4; five either
  // way.
  EXPECT_GT(faults.size(), 70u);
  EXPECT_LT(faults.size(), 155u);
}

}  // namespace
}  // namespace strata::io
