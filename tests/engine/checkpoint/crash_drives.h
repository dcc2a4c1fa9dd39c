// The drives of a run that is to crash: a CrashDisk that every rank's store lies on, when each
// commit was wanted and acknowledged in its history, and files of what a crash left.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "engine/run/run_store.h"
#include "io/crash_disk.h"
#include "io/file_descriptor.h"
#include "tests/engine/checkpoint/crash_run.h"

namespace strata::engine::testing {

inline constexpr const char* kStoreId = "0123456789abcdef0123456789abcdef";

// Commits in the history of a disk. What the first rank says counts. Thread-safe.
class CommitLedger final : public CommitObserver {
 public:
  explicit CommitLedger(const io::CrashDisk& disk) : disk_(disk) {}

  void wanted(std::int64_t step) override { enter(wanted_, step); }
  void acknowledged(std::int64_t step) override { enter(acknowledged_, step); }
  void updates_begin() override { enter(updates_begin_, 1); }
  void updates_began() override { enter(updates_began_, 1); }

  // The newest step that this has happened to when the disk has seen so many events; 0: none.
  std::int64_t wanted_by(std::int64_t events) const { return newest(wanted_, events); }
  std::int64_t acknowledged_by(std::int64_t events) const { return newest(acknowledged_, events); }
  bool updates_begin_by(std::int64_t events) const { return newest(updates_begin_, events) > 0; }
  bool updates_began_by(std::int64_t events) const { return newest(updates_began_, events) > 0; }
  // When the run had a store.
  std::int64_t first_event() const { return acknowledged_.front().event; }

 private:
  struct Entry {
    std::int64_t event;
    std::int64_t step;
  };

  void enter(std::vector<Entry>& entries, std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (entries.empty() || entries.back().step < step) entries.push_back({disk_.events(), step});
  }
  static std::int64_t newest(const std::vector<Entry>& entries, std::int64_t events) {
    std::int64_t step = 0;
    for (const Entry& entry : entries) {
      if (entry.event <= events) step = entry.step;
    }
    return step;
  }

  const io::CrashDisk& disk_;
  std::mutex mutex_;
  std::vector<Entry> wanted_;
  std::vector<Entry> acknowledged_;
  std::vector<Entry> updates_begin_;
  std::vector<Entry> updates_began_;
};

// Where the stores of all ranks lie, on a disk and in folders: rank by rank, in each directory.
class StoreLayout {
 public:
  // `setup`: of any rank; their stores are of one size.
  StoreLayout(const CrashCase& test, const RunSetup& setup) : test_(test) {
    const store::Manifest manifest = manifest_of(setup);
    volume_.capacity_bytes = manifest.data_bytes;
    volume_.metadata_bytes = store::store_metadata_bytes(manifest);
    volume_.stripe_bytes = 16 * kKiB;
    const std::int64_t stripes = ceil_div(volume_.capacity_bytes, volume_.stripe_bytes);
    const std::vector<io::StripeShare> rooms(static_cast<std::size_t>(test.directories),
                                             {1, stripes});
    volume_.shares = io::StripeMap(rooms, stripes).shares();
  }

  std::vector<io::CrashDisk::Image> blank() const {
    std::vector<io::CrashDisk::Image> images;
    for (int rank = 0; rank < test_.ranks; ++rank) {
      for (std::size_t d = 0; d < volume_.shares.size(); ++d) {
        images.emplace_back(static_cast<std::size_t>(volume_.file_bytes(d)));
      }
    }
    return images;
  }

  // A new store of a rank on its part of what a disk has opened.
  RunStore new_store(const RunSetup& setup,
                     std::vector<std::unique_ptr<io::EngineStorage>>& disk) const {
    const auto each = static_cast<std::size_t>(test_.directories);
    const auto first = disk.begin() + setup.topology.rank * test_.directories;
    std::vector<std::unique_ptr<io::EngineStorage>> own(each);
    std::move(first, first + test_.directories, own.begin());
    RunStore store;
    store.manifest = manifest_of(setup);
    store.volume = io::volume_over(std::move(own), volume_);
    store.header = store::write_header(
        *store.volume, {kStoreId, setup.topology.rank, test_.ranks, ""}, store.manifest);
    store.is_new = false;  // it is not measured
    return store;
  }

  static std::string drive(const std::string& folder, int d) {
    return folder + "/drive" + std::to_string(d);
  }
  std::vector<std::string> drives(const std::string& folder) const {
    std::vector<std::string> all;
    for (int d = 0; d < test_.directories; ++d) all.push_back(drive(folder, d));
    return all;
  }
  std::string file(const std::string& folder, std::size_t index) const {
    const int rank = static_cast<int>(index) / test_.directories;
    return drive(folder, static_cast<int>(index) % test_.directories) + "/" +
           store::store_file_name({kStoreId, rank, test_.ranks, ""});
  }
  StorePointer pointer(const std::string& folder) const {
    return {kStoreId, std::vector<StoreOfRank>(static_cast<std::size_t>(test_.ranks),
                                               {"host", drives(folder)})};
  }

 private:
  const CrashCase& test_;
  io::VolumeFiles volume_;
};

// Files in a folder that hold one image after another; only what differs is written.
class CrashFiles {
 public:
  CrashFiles(const StoreLayout& layout, std::string folder)
      : layout_(layout), folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_ + "/run");
    for (const std::string& drive : layout.drives(folder_)) {
      std::filesystem::create_directories(drive);
    }
    replace_store_pointer(folder_ + "/run", layout.pointer(folder_));
  }

  void put(const std::vector<io::CrashDisk::Image>& images) {
    now_.resize(images.size());
    for (std::size_t i = 0; i < images.size(); ++i)
      put(images[i], now_[i], layout_.file(folder_, i));
  }

 private:
  static void put(const io::CrashDisk::Image& image, io::CrashDisk::Image& now,
                  const std::string& path) {
    const io::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool is_new = now.size() != image.size();
    for (std::size_t at = 0; at < image.size(); at += kPageBytes) {
      if (!is_new && std::memcmp(image.data() + at, now.data() + at, kPageBytes) == 0) continue;
      ASSERT_EQ(::pwrite(file.get(), image.data() + at, kPageBytes, static_cast<off_t>(at)),
                kPageBytes);
    }
    now = image;
  }

  const StoreLayout& layout_;
  const std::string folder_;
  std::vector<io::CrashDisk::Image> now_;
};

}  // namespace strata::engine::testing
