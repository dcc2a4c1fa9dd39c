#include "io/volume.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "tests/io/loop_mount.h"
#include "tests/io/storage_conformance.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

constexpr std::int64_t kStripeBytes = 16 * kKiB;
constexpr std::int64_t kMetadataBytes = 8 * kKiB;
constexpr std::array<double, 3> kRates = {1e9, 7e9, 2e9};

VolumeOptions options_in(const std::vector<std::string>& directories) {
  VolumeOptions options;
  for (std::size_t d = 0; d < directories.size(); ++d) {
    options.directories.push_back({directories[d], kRates.at(d)});
  }
  options.capacity_bytes = kConformanceCapacityBytes;
  options.metadata_bytes = kMetadataBytes;
  options.stripe_bytes = kStripeBytes;
  options.engine.queue_depth = 8;
  options.engine.request_bytes_max = 64 * kKiB;
  return options;
}

// Without names, several files can be in one directory.
StorageFactory factory(const char* name, std::size_t directories, EngineKind engine) {
  return {name, [=] {
            VolumeOptions options =
                options_in(std::vector<std::string>(directories, testing::TempDir()));
            options.engine.kind = engine;
            return create_volume(options, nullptr);
          }};
}

const auto factories =
    testing::Values(factory("one_directory", 1, EngineKind::uring),
                    factory("one_directory_threads", 1, EngineKind::threads),
                    factory("three_directories", 3, EngineKind::uring),
                    factory("three_directories_threads", 3, EngineKind::threads));

INSTANTIATE_TEST_SUITE_P(Volume, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(Volume, StorageConformanceDeathTest, factories, storage_name);

class VolumeTest : public testing::Test {
 protected:
  VolumeOptions options(int directories) const {
    std::vector<std::string> paths;
    for (int d = 0; d < directories; ++d)
      paths.push_back(root_.make_folder(fmt::format("drive{}", d)));
    VolumeOptions options = options_in(paths);
    options.file_name = "state";
    return options;
  }
  std::string file_path(const VolumeOptions& options, int directory) const {
    return options.directories[static_cast<std::size_t>(directory)].path + "/" + options.file_name;
  }
  AlignedBuffer buffer(std::int64_t bytes) { return AlignedBuffer(budget_, "test", bytes); }

  test::TemporaryFolder root_;
  Budget budget_{"host memory", 64 * kMiB};
};

// Reads the files behind the volume's back and puts the data together again by the stripe map.
TEST_F(VolumeTest, StripesLieBehindTheMetadataWhereTheMapSays) {
  const VolumeOptions volume_options = options(3);
  const auto volume = create_volume(volume_options, nullptr);
  volume->publish();
  AlignedBuffer data = buffer(kConformanceCapacityBytes);
  fill(data.span(), 0, 1);
  AlignedBuffer metadata = buffer(kMetadataBytes);
  IoGroup group;
  volume->write(0, data.span(), group);
  for (int d = 0; d < 3; ++d) {
    std::memset(metadata.data(), 'a' + d, kMetadataBytes);
    volume->file(d).write(0, metadata.span(), group);
    group.wait();
  }
  std::vector<StripeShare> shares;
  std::vector<std::string> files;
  for (int d = 0; d < 3; ++d) {
    shares.push_back(volume->share(d));
    files.push_back(test::contents_of(file_path(volume_options, d)));
    ASSERT_EQ(std::ssize(files.back()), kMetadataBytes + shares.back().stripes * kStripeBytes);
    EXPECT_EQ(volume->file(d).capacity_bytes(), std::ssize(files.back()));
    EXPECT_EQ(files.back().substr(0, kMetadataBytes),
              std::string(kMetadataBytes, static_cast<char>('a' + d)));
  }
  const StripeMap map(shares, kConformanceCapacityBytes / kStripeBytes);
  for (std::int64_t stripe = 0; stripe < map.stripes(); ++stripe) {
    const StripePlace place = map.place(stripe);
    const char* found = files[static_cast<std::size_t>(place.directory)].data() + kMetadataBytes +
                        place.index * kStripeBytes;
    ASSERT_EQ(std::memcmp(found, data.data() + stripe * kStripeBytes, kStripeBytes), 0) << stripe;
  }
}

TEST_F(VolumeTest, BytesAreSpreadByBandwidth) {
  const auto volume = create_volume(options(3), nullptr);
  AlignedBuffer data = buffer(kMiB);
  IoGroup group;
  volume->write(kMiB, data.span(), group);
  group.wait();
  // 64 stripes, dealt 1:7:2, each directory to a stripe or two.
  for (int d = 0; d < 3; ++d) {
    const double ideal = 64 * kRates.at(static_cast<std::size_t>(d)) / 10e9;
    const auto stripes =
        static_cast<double>(volume->device_traffic(d).written_bytes / kStripeBytes);
    EXPECT_NEAR(stripes, ideal, 2) << d;
  }
  EXPECT_EQ(volume->traffic().written_bytes, kMiB);
}

TEST_F(VolumeTest, SaysWhatItIs) {
  const VolumeOptions volume_options = options(2);
  const auto volume = create_volume(volume_options, nullptr);
  ASSERT_EQ(volume->devices(), 2);
  for (int d = 0; d < 2; ++d) {
    EXPECT_EQ(volume->device_path(d), volume_options.directories[static_cast<std::size_t>(d)].path);
    EXPECT_EQ(volume->file(d).device_path(0), file_path(volume_options, d));
  }
  EXPECT_EQ(volume->metadata_bytes(), kMetadataBytes);
  EXPECT_EQ(volume->stripe_bytes(), kStripeBytes);
  // 1:7 of 512 stripes.
  EXPECT_NE(volume->description().find("8 MiB in " + volume->device_path(0) + " (12%), " +
                                       volume->device_path(1) + " (88%); io_uring"),
            std::string::npos)
      << volume->description();
}

TEST_F(VolumeTest, ACapacityNeedNotBeWholeStripes) {
  VolumeOptions volume_options = options(2);
  volume_options.capacity_bytes = 5 * kStripeBytes + 1;
  const auto volume = create_volume(volume_options, nullptr);
  EXPECT_EQ(volume->capacity_bytes(), 5 * kStripeBytes + volume->alignment_bytes());
  AlignedBuffer data = buffer(kPageBytes);
  fill(data.span(), 5 * kStripeBytes, 1);
  IoGroup group;
  const AlignedSpan last = data.span(0, volume->alignment_bytes());
  volume->write(5 * kStripeBytes, last, group);
  group.wait();
  std::memset(last.data(), 0, static_cast<std::size_t>(last.bytes()));
  volume->read(5 * kStripeBytes, last, group);
  group.wait();
  EXPECT_EQ(first_difference(last, 5 * kStripeBytes, 1), -1);
}

TEST_F(VolumeTest, FilesAreDeletedUnlessKept) {
  const VolumeOptions volume_options = options(2);
  {
    const auto volume = create_volume(volume_options, nullptr);
    EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 0)));
    volume->publish();
    EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 0)));
    EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 1)));
  }
  EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 0)));
  EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 1)));
  const auto volume = create_volume(volume_options, nullptr);
  volume->publish();
  volume->keep();
  EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 0)));
  EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 1)));
}

TEST_F(VolumeTest, KeptBeforeItIsPublishedItStays) {
  const VolumeOptions volume_options = options(2);
  {
    const auto volume = create_volume(volume_options, nullptr);
    volume->keep();
  }
  EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 0)));
  {
    const auto volume = create_volume(volume_options, nullptr);
    volume->keep();
    volume->publish();
  }
  EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 0)));
  EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 1)));
}

TEST_F(VolumeTest, WhenOneFileCannotBeMadeNoneIs) {
  const VolumeOptions volume_options = options(2);
  std::ofstream(file_path(volume_options, 1)) << "of another run";
  EXPECT_THROW(create_volume(volume_options, nullptr), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 0)));
  EXPECT_TRUE(std::filesystem::exists(file_path(volume_options, 1)));
}

TEST_F(VolumeTest, RefusesMoreThanIsFreeBeforeItMakesAnything) {
  VolumeOptions volume_options = options(2);
  volume_options.capacity_bytes = std::int64_t{1} << 60;
  EXPECT_THROW(create_volume(volume_options, nullptr), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(file_path(volume_options, 0)));
}

// Directories on one drive, measured: equal shares, whatever the measurement says.
TEST_F(VolumeTest, DirectoriesOnOneDriveShareItsBandwidth) {
  VolumeOptions volume_options = options(2);
  for (VolumeDirectory& directory : volume_options.directories) directory.bytes_per_second = 0;
  const auto volume = create_volume(volume_options, nullptr);
  EXPECT_EQ(volume->share(0).weight, volume->share(1).weight);
  EXPECT_GT(volume->share(0).weight, 1000000);  // no drive in use is slower than 1 MB/s
  EXPECT_EQ(volume->share(0).stripes, volume->share(1).stripes);
}

// Ranks start at once; each finds what the others have left.
TEST_F(VolumeTest, VolumesMadeAtOnceDoNotDealOutTheSameSpace) {
  const LoopMount small(16 * kMiB);
  const LoopMount large(64 * kMiB);
  if (!small.mounted() || !large.mounted()) GTEST_SKIP() << "no right to mount";
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<Volume>> volumes(kRanks);
  std::vector<std::string> failures(kRanks);
  const auto make = [&](std::size_t rank) {
    VolumeOptions volume_options = options_in({small.directory(), large.directory()});
    volume_options.file_name = fmt::format("state{}", rank);
    volume_options.capacity_bytes = 16 * kMiB;  // each could fill the small one
    for (VolumeDirectory& directory : volume_options.directories) directory.bytes_per_second = 1e9;
    try {
      volumes[rank] = create_volume(volume_options, nullptr);
    } catch (const Error& error) {
      failures[rank] = error.what();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(make, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
}

TEST_F(VolumeTest, FlushReachesEveryDirectory) {
  const auto volume = create_volume(options(3), nullptr);
  IoGroup group;
  volume->flush(group);
  group.wait();
  EXPECT_EQ(volume->traffic().written_bytes, 0);
}

class OpenVolume : public VolumeTest {
 protected:
  // Filled with generation 1.
  OpenVolume() {
    const auto volume = create_volume(options_, nullptr);
    volume->publish();
    volume->keep();
    for (int d = 0; d < volume->devices(); ++d) {
      files_.paths.push_back(file_path(options_, d));
      files_.shares.push_back(volume->share(d));
    }
    files_.capacity_bytes = volume->capacity_bytes();
    files_.metadata_bytes = volume->metadata_bytes();
    files_.stripe_bytes = volume->stripe_bytes();
    files_.engine = options_.engine;
    AlignedBuffer data = buffer(kConformanceCapacityBytes);
    fill(data.span(), 0, 1);
    IoGroup group;
    volume->write(0, data.span(), group);
    group.wait();
  }
  AlignedBuffer contents(Volume& volume) {
    AlignedBuffer data = buffer(kConformanceCapacityBytes);
    IoGroup group;
    volume.read(0, data.span(), group);
    group.wait();
    return data;
  }
  std::int64_t allocated_bytes() const {
    std::int64_t bytes = 0;
    for (const std::string& path : files_.paths) bytes += FoundVolumeFile(path).allocated_bytes();
    return bytes;
  }

  const VolumeOptions options_ = options(3);
  VolumeFiles files_;
};

TEST_F(OpenVolume, HoldsWhatWasWrittenAndStays) {
  {
    const auto volume = open_volume(files_, VolumeAccess::shared, nullptr);
    EXPECT_EQ(volume->device_path(1), options_.directories[1].path);
    EXPECT_EQ(first_difference(contents(*volume).span(), 0, 1), -1);
  }
  EXPECT_NO_THROW(open_volume(files_, VolumeAccess::exclusive, nullptr));
}

TEST_F(OpenVolume, OneThatIsExclusiveIsWrittenOn) {
  const auto volume = open_volume(files_, VolumeAccess::exclusive, nullptr);
  AlignedBuffer data = buffer(kMiB);
  fill(data.span(), kMiB, 2);
  IoGroup group;
  volume->write(kMiB, data.span(), group);
  group.wait();
  const AlignedBuffer all = contents(*volume);
  EXPECT_EQ(first_difference(all.span(0, kMiB), 0, 1), -1);
  EXPECT_EQ(first_difference(all.span(kMiB, kMiB), kMiB, 2), -1);
}

// And no lock of the others is left behind.
TEST_F(OpenVolume, ALockedFileRefusesAllOfThem) {
  {
    const VolumeFile last = VolumeFile::open(files_.paths[2], VolumeAccess::exclusive, 0);
    EXPECT_THROW(open_volume(files_, VolumeAccess::shared, nullptr), ConfigError);
  }
  const auto volume = open_volume(files_, VolumeAccess::exclusive, nullptr);
  EXPECT_THROW(open_volume(files_, VolumeAccess::shared, nullptr), ConfigError);
  volume->share_lock();
  EXPECT_NO_THROW(open_volume(files_, VolumeAccess::shared, nullptr));
}

// A range that begins and ends within stripes.
TEST_F(OpenVolume, WhatIsDiscardedFreesItsBlocksAndNoOthers) {
  const std::int64_t before = allocated_bytes();
  constexpr std::int64_t kBegin = kMiB + kPageBytes;
  {
    const auto volume = open_volume(files_, VolumeAccess::exclusive, nullptr);
    volume->discard(kBegin, 3 * kMiB);
    const AlignedBuffer all = contents(*volume);
    EXPECT_EQ(first_difference(all.span(0, kBegin), 0, 1), -1);
    const std::int64_t end = kBegin + 3 * kMiB;
    EXPECT_EQ(first_difference(all.span(end, kConformanceCapacityBytes - end), end, 1), -1);
  }
  if (allocated_bytes() == before) GTEST_SKIP() << "the file system punches no holes";
  EXPECT_EQ(allocated_bytes(), before - 3 * kMiB);
  const auto volume = open_volume(files_, VolumeAccess::exclusive, nullptr);
  volume->reserve();
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(first_difference(contents(*volume).span(0, kBegin), 0, 1), -1);
}

TEST_F(OpenVolume, RemovingDeletesItsFiles) {
  const auto volume = open_volume(files_, VolumeAccess::exclusive, nullptr);
  volume->remove();
  for (const std::string& path : files_.paths) EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

}  // namespace
}  // namespace strata::io
