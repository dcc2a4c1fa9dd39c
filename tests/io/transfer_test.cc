#include "io/transfer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

using Next = Transfer::Next;

constexpr std::int64_t kOffsetBytes = 1 * kMiB;
constexpr std::int64_t kBytes = 16 * kKiB;
constexpr std::int64_t kAlignmentBytes = 512;

class TransferTest : public testing::Test {
 protected:
  void expect_rest(std::int64_t done_bytes) {
    const Transfer::Piece rest = transfer_.rest();
    EXPECT_EQ(rest.operation, Operation::write);
    EXPECT_EQ(rest.offset_bytes, kOffsetBytes + done_bytes);
    EXPECT_EQ(rest.span.data(), buffer_.data() + done_bytes);
    EXPECT_EQ(rest.span.bytes(), kBytes - done_bytes);
  }
  std::string failure() const { return transfer_.failure("/nvme/state").what(); }

  Budget budget_{"host memory", kMiB};
  AlignedBuffer buffer_{budget_, "test", kBytes};
  Transfer transfer_{Operation::write, kOffsetBytes, buffer_.span(), kAlignmentBytes};
};

TEST_F(TransferTest, BeginsWithAllOfIt) { expect_rest(0); }

TEST_F(TransferTest, IsDoneWhenAllBytesAre) { EXPECT_EQ(transfer_.on_result(kBytes), Next::done); }

TEST_F(TransferTest, ContinuesAShortTransferWhereItStopped) {
  ASSERT_EQ(transfer_.on_result(4096), Next::resume);
  expect_rest(4096);
  ASSERT_EQ(transfer_.on_result(8192), Next::resume);
  expect_rest(4096 + 8192);
  EXPECT_EQ(transfer_.on_result(kBytes - 4096 - 8192), Next::done);
}

// Direct I/O from an unaligned position would be refused with EINVAL.
TEST_F(TransferTest, ContinuesFromTheLastAlignedPosition) {
  ASSERT_EQ(transfer_.on_result(1000), Next::resume);
  expect_rest(512);
}

TEST_F(TransferTest, RetriesAnInterruptionWithoutProgress) {
  ASSERT_EQ(transfer_.on_result(4096), Next::resume);
  EXPECT_EQ(transfer_.on_result(-EINTR), Next::retry);
  expect_rest(4096);
  EXPECT_EQ(transfer_.on_result(-EAGAIN), Next::retry);
  expect_rest(4096);
}

TEST_F(TransferTest, FailsWithTheErrnoOfTheWholeRequest) {
  ASSERT_EQ(transfer_.on_result(4096), Next::resume);
  ASSERT_EQ(transfer_.on_result(-ENOSPC), Next::failed);
  EXPECT_EQ(failure(),
            "write /nvme/state at offset 1048576, 16384 bytes: No space left on device (errno 28)");
}

TEST_F(TransferTest, FailsWhereTheFileEnds) {
  ASSERT_EQ(transfer_.on_result(4096), Next::resume);
  ASSERT_EQ(transfer_.on_result(0), Next::failed);
  EXPECT_NE(failure().find("nothing after the first 4096 bytes"), std::string::npos) << failure();
}

TEST_F(TransferTest, FailsWhereTheFileEndsInsideABlock) {
  EXPECT_EQ(transfer_.on_result(kAlignmentBytes - 1), Next::failed);
}

TEST_F(TransferTest, NamesAReasonOfItsOwner) {
  EXPECT_STREQ(transfer_.failure("/nvme/state", "the drive is stuck").what(),
               "write /nvme/state at offset 1048576, 16384 bytes: the drive is stuck");
}

TEST_F(TransferTest, MoreBytesThanAskedForIsAProgrammerError) {
  EXPECT_DEATH(static_cast<void>(transfer_.on_result(kBytes + 1)), "16385 bytes for a request");
}

}  // namespace
}  // namespace strata::io
