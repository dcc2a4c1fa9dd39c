#include "io/crash_disk.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "io/volume.h"
#include "kernels/base/error.h"
#include "tests/io/failure_of.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

// Two files with stripes of 16 KiB dealt one to three, behind a page of metadata each.
VolumeFiles two_files() {
  constexpr std::int64_t kStripeBytes = 16 * kKiB;
  VolumeFiles files;
  files.capacity_bytes = kConformanceCapacityBytes;
  files.metadata_bytes = kPageBytes;
  files.stripe_bytes = kStripeBytes;
  constexpr std::int64_t kQuarter = kConformanceCapacityBytes / kStripeBytes / 4;
  files.shares = {{1, kQuarter}, {3, 3 * kQuarter}};
  return files;
}

// The disk lives until the next one is made.
std::unique_ptr<Storage> make_volume_that_may_crash() {
  static std::unique_ptr<CrashDisk> disk;
  const VolumeFiles files = two_files();
  std::vector<CrashDisk::Image> images;
  for (std::size_t d = 0; d < 2; ++d) {
    images.emplace_back(static_cast<std::size_t>(files.file_bytes(d)));
  }
  CrashRules rules;
  rules.faults.delay_us_max = 20;
  disk = std::make_unique<CrashDisk>(std::move(images), rules);
  return volume_over(disk->open(), files);
}

const auto factories = testing::Values(StorageFactory{"volume", make_volume_that_may_crash});
INSTANTIATE_TEST_SUITE_P(CrashDisk, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(CrashDisk, StorageConformanceDeathTest, factories, storage_name);

class CrashDiskTest : public testing::Test {
 protected:
  static constexpr std::int64_t kFileBytes = 64 * kKiB;

  void open(int files, std::int64_t crash_at = -1) {
    storages_.clear();
    CrashRules rules;
    rules.crash_at = crash_at;
    disk_ = std::make_unique<CrashDisk>(
        std::vector<CrashDisk::Image>(static_cast<std::size_t>(files),
                                      CrashDisk::Image(static_cast<std::size_t>(kFileBytes))),
        rules);
    storages_ = disk_->open();
  }
  // Of ones; returns what the group says.
  std::string write(int file, std::int64_t offset_bytes, std::int64_t bytes) {
    std::memset(ones_.data(), 1, static_cast<std::size_t>(bytes));
    IoGroup group;
    storage(file).write(offset_bytes, ones_.span(0, bytes), group);
    return failure_of(group);
  }
  std::string flush(int file) {
    IoGroup group;
    storage(file).flush(group);
    return failure_of(group);
  }
  std::string read(int file) {
    IoGroup group;
    storage(file).read(0, ones_.span(), group);
    return failure_of(group);
  }
  EngineStorage& storage(int file) { return *storages_.at(static_cast<std::size_t>(file)); }

  // Of each sector of a file after a crash, '1' where the write has come to be, '0' where not.
  std::string survivors(int file, std::uint64_t seed, std::int64_t sector_bytes) const {
    const CrashDisk::Image image = disk_->after_crash(seed).at(static_cast<std::size_t>(file));
    std::string sectors;
    for (auto at = image.begin(); at < image.end(); at += sector_bytes) {
      EXPECT_TRUE(std::all_of(at, at + sector_bytes, [&](std::byte byte) { return byte == *at; }));
      sectors += *at == std::byte{1} ? '1' : '0';
    }
    return sectors;
  }
  std::set<std::string> all_survivors(int file, std::int64_t sector_bytes) const {
    std::set<std::string> all;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      all.insert(survivors(file, seed, sector_bytes));
    }
    return all;
  }

  static constexpr std::uint64_t kSeeds = 300;
  Budget budget_{"host memory", kMiB};
  AlignedBuffer ones_{budget_, "test", kFileBytes};
  std::unique_ptr<CrashDisk> disk_;
  std::vector<std::unique_ptr<EngineStorage>> storages_;
};

TEST_F(CrashDiskTest, WhatWasFlushedSurvives) {
  open(1);
  write(0, kPageBytes, 2 * kPageBytes);
  flush(0);
  EXPECT_EQ(all_survivors(0, kPageBytes), std::set<std::string>{"0110000000000000"});
}

// Of three pages every subset: eight of them.
TEST_F(CrashDiskTest, OfWhatWasNotAnyPageMay) {
  open(1);
  write(0, 0, 3 * kPageBytes);
  const std::set<std::string> all = all_survivors(0, kPageBytes);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_TRUE(all.contains("0000000000000000"));
  EXPECT_TRUE(all.contains("1110000000000000"));
  EXPECT_TRUE(all.contains("1010000000000000"));
}

// Drawn from 256 subsets in about a third of the seeds: 80 different ones, to 5 either way.
TEST_F(CrashDiskTest, AWriteOfOnePageIsTornAtSectors) {
  open(1);
  write(0, 0, kPageBytes);
  const std::set<std::string> all = all_survivors(0, 512);
  EXPECT_GT(all.size(), 40u);
  EXPECT_TRUE(all.contains(std::string(128, '0')));
  EXPECT_TRUE(all.contains(std::string(8, '1') + std::string(120, '0')));
}

// In any combination: with two writes, four.
TEST_F(CrashDiskTest, WritesSurviveOneWithoutTheOther) {
  open(2);
  write(0, 0, kPageBytes);
  write(1, 0, kPageBytes);
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    all.insert(survivors(0, seed, 512).substr(0, 8) + survivors(1, seed, 512).substr(0, 8));
  }
  for (const char* first : {"00000000", "11111111"}) {
    for (const char* second : {"00000000", "11111111"}) {
      EXPECT_TRUE(all.contains(std::string(first) + second)) << first << second;
    }
  }
}

TEST_F(CrashDiskTest, AFlushIsOfItsFile) {
  open(2);
  write(0, 0, kPageBytes);
  write(1, 0, kPageBytes);
  flush(1);
  EXPECT_GT(all_survivors(0, 512).size(), 1u);
  EXPECT_EQ(all_survivors(1, kPageBytes).size(), 1u);
}

TEST_F(CrashDiskTest, AFlushIsOfWhatWasAnsweredBeforeIt) {
  open(1);
  std::memset(ones_.data(), 1, kFileBytes);
  IoGroup group;
  storage(0).flush(group);
  storage(0).write(0, ones_.span(0, kPageBytes), group);
  group.wait();
  EXPECT_TRUE(all_survivors(0, 512).contains(std::string(128, '0')));
}

// Operation 2 is the flush.
TEST_F(CrashDiskTest, NothingReachesAnyFileFromTheCrashOn) {
  open(2, 2);
  EXPECT_EQ(write(0, 0, kPageBytes), "");
  EXPECT_EQ(read(0), "");
  EXPECT_EQ(write(1, 0, kPageBytes), "");
  EXPECT_FALSE(disk_->has_crashed());
  EXPECT_NE(flush(0).find("crash disk 0"), std::string::npos);
  EXPECT_TRUE(disk_->has_crashed());
  EXPECT_NE(write(1, kPageBytes, kPageBytes), "");
  EXPECT_NE(read(1), "");
  EXPECT_EQ(disk_->operations(), 2);
  EXPECT_TRUE(all_survivors(0, 512).contains(std::string(128, '0')));
  for (const std::string& sectors : all_survivors(1, 512)) {
    EXPECT_EQ(sectors.substr(8), std::string(120, '0'));
  }
}

TEST_F(CrashDiskTest, WhatSurvivesIsADiskAgain) {
  open(1);
  write(0, kPageBytes, kPageBytes);
  flush(0);
  CrashDisk next(disk_->after_crash(1));
  const auto storages = next.open();
  IoGroup group;
  storages[0]->read(0, ones_.span(), group);
  group.wait();
  EXPECT_EQ(ones_.data()[0], std::byte{0});
  EXPECT_EQ(ones_.data()[kPageBytes], std::byte{1});
  EXPECT_EQ(next.operations(), 0);
}

}  // namespace
}  // namespace strata::io
