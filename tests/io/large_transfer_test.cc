// A single transfer of more than 2 GiB, which is more than 2^31 elements of a byte each.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "io/engine_storage.h"
#include "io/scratch_file.h"
#include "io/uring_engine.h"
#include "io/uring_probe.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"
#include "tests/io/failure_of.h"

namespace strata::io {
namespace {

constexpr std::int64_t kBytes = 2 * kGiB + 3 * kMiB + kPageBytes;
constexpr std::int64_t kRequestBytes = 4 * kMiB;
constexpr std::int64_t kOffsetBytes = 5 * kGiB;  // beyond what 32 bits hold, too

// Answers at once, and takes down which bytes it was asked for.
class NotingEngine final : public Engine {
 public:
  Submission submit(std::span<const Request> requests) override {
    const std::lock_guard lock(mutex_);
    for (const Request& request : requests) {
      pieces_.push_back(request.piece);
      completions_.push_back({request.tag, static_cast<std::int32_t>(request.piece.span.bytes())});
    }
    return {requests.size(), 0};
  }
  std::size_t wait(std::span<Completion> completions, std::chrono::nanoseconds) override {
    const std::lock_guard lock(mutex_);
    const std::size_t count = std::min(completions.size(), completions_.size());
    std::copy_n(completions_.end() - static_cast<std::ptrdiff_t>(count), count,
                completions.begin());
    completions_.resize(completions_.size() - count);
    return count;
  }
  std::string description() const override { return "notes"; }

  std::vector<Transfer::Piece> pieces() const {
    const std::lock_guard lock(mutex_);
    return pieces_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Transfer::Piece> pieces_;
  std::vector<Completion> completions_;
};

class LargeTransferTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "a sanitizer would need several times the memory";
#endif
    if (available_memory_bytes() < 2 * kBytes) GTEST_SKIP() << "not enough memory";
    buffer_ = AlignedBuffer(budget_, "test", kBytes);
    options_.path = "/nvme/state";
    options_.capacity_bytes = kOffsetBytes + kBytes;
    options_.request_bytes_max = kRequestBytes;
  }

  Budget budget_{"host memory", kBytes};
  AlignedBuffer buffer_;
  EngineStorageOptions options_;
};

TEST_F(LargeTransferTest, IsCutIntoPiecesThatAreAllOfIt) {
  auto owned = std::make_unique<NotingEngine>();
  const NotingEngine& engine = *owned;
  EngineStorage storage(options_, std::move(owned), nullptr);
  for (const Operation operation : {Operation::write, Operation::read}) {
    const std::size_t first = engine.pieces().size();
    IoGroup group;
    if (operation == Operation::write) {
      storage.write(kOffsetBytes, buffer_.span(), group);
    } else {
      storage.read(kOffsetBytes, buffer_.span(), group);
    }
    ASSERT_EQ(failure_of(group), "");
    std::int64_t done_bytes = 0;
    const std::vector<Transfer::Piece> pieces = engine.pieces();
    for (std::size_t i = first; i < pieces.size(); ++i) {
      const Transfer::Piece& piece = pieces[i];
      ASSERT_EQ(piece.operation, operation);
      ASSERT_EQ(piece.offset_bytes, kOffsetBytes + done_bytes);
      ASSERT_EQ(piece.span.data(), buffer_.data() + done_bytes);
      ASSERT_LE(piece.span.bytes(), kRequestBytes);
      done_bytes += piece.span.bytes();
    }
    EXPECT_EQ(done_bytes, kBytes);
  }
  EXPECT_EQ(storage.traffic().written_bytes, kBytes);
  EXPECT_EQ(storage.traffic().read_bytes, kBytes);
}

// From a file of holes with a few pages in it, into memory registered in parts of a GiB.
TEST_F(LargeTransferTest, ReadsARealFile) {
  const UringSupport support = probe_uring();
  if (!support.usable()) GTEST_SKIP() << support.obstacle;
  const DirectFile file = open_scratch_file(testing::TempDir());
  ASSERT_EQ(ftruncate(file.descriptor(), options_.capacity_bytes), 0);
  auto owned = std::make_unique<UringEngine>(file.descriptor(), file.path(), options_.queue_depth,
                                             options_.timeout);
  EngineStorage storage(options_, std::move(owned), nullptr);
  storage.register_memory(buffer_.span());
  if (support.registers_buffers && support.locked_bytes_max > kBytes) {
    EXPECT_NE(storage.description().find("3 of 3 buffers"), std::string::npos)
        << storage.description();
  }

  const std::array<std::int64_t, 4> pages = {0, kGiB - kPageBytes, 2 * kGiB, kBytes - kPageBytes};
  for (const std::int64_t at : pages) {
    std::memset(buffer_.data(), static_cast<int>(at / kPageBytes % 255 + 1), kPageBytes);
    ASSERT_EQ(pwrite(file.descriptor(), buffer_.data(), kPageBytes, kOffsetBytes + at), kPageBytes);
  }
  for (std::int64_t at = 0; at < kBytes; at += kPageBytes) buffer_.data()[at] = std::byte{0xFF};
  IoGroup group;
  storage.read(kOffsetBytes, buffer_.span(), group);
  ASSERT_EQ(failure_of(group), "");
  for (std::int64_t at = 0; at < kBytes; at += kPageBytes) {
    const bool is_hole = std::ranges::find(pages, at) == pages.end();
    const auto expected = static_cast<std::byte>(is_hole ? 0 : at / kPageBytes % 255 + 1);
    ASSERT_EQ(buffer_.data()[at], expected) << at;
  }
}

}  // namespace
}  // namespace strata::io
