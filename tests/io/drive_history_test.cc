// What a loss of power leaves at each moment of a history that is written down here.
#include "io/drive_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

class PowerLossTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSeeds = 100;

  // Of one page of ones; its number.
  std::int64_t write(std::size_t page, std::size_t file = 0) {
    return history_.submit({Operation::write, file, static_cast<std::int64_t>(page) * kPageBytes,
                            std::vector<std::byte>(kPageBytes, std::byte{1})});
  }
  std::int64_t flush(std::size_t file = 0) {
    return history_.submit({Operation::flush, file, 0, {}});
  }
  void answer_write(std::int64_t number) {
    history_.answer(number, static_cast<std::int32_t>(kPageBytes));
  }

  // Of file 0 after the first `events`, over all seeds: of each page, '1' where it is written
  // whole, '0' where not at all, '?' where in part.
  std::set<std::string> pages_after(std::int64_t events) const {
    PowerLoss loss(history_);
    loss.advance_to(events);
    std::set<std::string> all;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const DriveHistory::Image image = loss.images(seed).front();
      std::string pages;
      for (auto at = image.begin(); at < image.end(); at += kPageBytes) {
        const auto ones = std::count(at, at + kPageBytes, std::byte{1});
        pages += ones == kPageBytes ? '1' : ones == 0 ? '0' : '?';
      }
      all.insert(pages);
    }
    return all;
  }

  DriveHistory history_{std::vector<DriveHistory::Image>(2, DriveHistory::Image(2 * kPageBytes))};
};

using Pages = std::set<std::string>;

TEST_F(PowerLossTest, AWriteIsOpenUntilItIsFlushed) {
  answer_write(write(1));
  history_.answer(flush(), 0);
  EXPECT_EQ(pages_after(0), Pages{"00"});
  EXPECT_EQ(pages_after(1), (Pages{"00", "01", "0?"}));  // submitted
  EXPECT_EQ(pages_after(2), (Pages{"00", "01", "0?"}));  // answered
  EXPECT_EQ(pages_after(3), (Pages{"00", "01", "0?"}));  // the flush has begun
  EXPECT_EQ(pages_after(4), Pages{"01"});
}

TEST_F(PowerLossTest, AFlushIsOfWhatItsFileHadAnsweredWhenItBegan) {
  const std::int64_t early = write(0);
  const std::int64_t late = write(1);
  answer_write(early);
  const std::int64_t covering_one = flush();
  const std::int64_t of_another_file = flush(1);
  answer_write(late);
  history_.answer(of_another_file, 0);
  EXPECT_TRUE(pages_after(7).contains("00"));
  history_.answer(covering_one, 0);
  EXPECT_EQ(pages_after(8), (Pages{"10", "11", "1?"}));
}

TEST_F(PowerLossTest, WhatFailedDidNothing) {
  history_.answer(write(0), -5);
  answer_write(write(1));
  history_.answer(flush(), -5);
  EXPECT_EQ(pages_after(6), (Pages{"00", "01", "0?"}));
}

TEST_F(PowerLossTest, OfTwoWritesToAPlaceTheLaterAnswerIsOnTop) {
  const std::int64_t ones = write(0);
  const std::int64_t zeros =
      history_.submit({Operation::write, 0, 0, std::vector<std::byte>(kPageBytes)});
  answer_write(zeros);
  answer_write(ones);
  history_.answer(flush(), 0);
  EXPECT_EQ(pages_after(6), Pages{"10"});
}

}  // namespace
}  // namespace strata::io
