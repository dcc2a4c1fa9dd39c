// The rates of a machine: what is measured, within which memory, and how a drive's rates combine.
#include "engine/cost/machine_rates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>

#include "engine/cost/measured_rates.h"
#include "engine/plan/write_forecast.h"
#include "io/volume.h"
#include "tests/engine/cost/small_machine.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

bool is_rate(double rate) { return std::isfinite(rate) && rate > 0; }

std::unique_ptr<io::Volume> volume_of(const std::string& directory, std::int64_t bytes) {
  io::VolumeOptions options;
  options.directories = {{directory}};
  options.capacity_bytes = bytes;
  options.engine.kind = io::choose_engine(io::parse_engine("auto")).kind;
  return io::create_volume(options, nullptr);
}

// 6 bytes read and 2 written, at 2 and 1 byte a second: 3 s + 2 s.
TEST(DriveRates, SecondsAreTheFewerOfApartAndMixed) {
  DriveRates rates{.read_bytes_per_s = 2, .written_bytes_per_s = 1};
  EXPECT_DOUBLE_EQ(rates.seconds(6, 2), 5);
  rates.mixed_bytes_per_s = 4;  // 4 bytes mixed, 4 read: 1 s + 2 s
  EXPECT_DOUBLE_EQ(rates.seconds(6, 2), 3);
  EXPECT_DOUBLE_EQ(rates.seconds(2, 6), 5);  // 1 s, and 4 bytes written
  EXPECT_DOUBLE_EQ(rates.seconds(6, 0), 3);
  rates.mixed_bytes_per_s = 1;  // slower than apart
  EXPECT_DOUBLE_EQ(rates.seconds(6, 2), 5);
  EXPECT_DOUBLE_EQ(DriveRates{}.seconds(6, 2), 0);
}

TEST(MeasureMachine, MeasuresEveryResourceAndGivesMemoryBack) {
  const test::TemporaryFolder folder;
  for (const char* optimizer : {"adamw", "lion"}) {
    for (const char* moments : {"f32", "bf16", "int8"}) {
      Options options = small_options();
      options.model = "gpt2:layers=2,hidden=256,heads=2,context=32,vocab=256";
      options.optimizer = optimizer;
      options.moments = moments;
      options.place = "all=nvme";
      SmallMachine machine(options);
      const auto volume =
          volume_of(folder.path(), machine.setup().plan.total_bytes(offload::Tier::nvme));
      const std::int64_t device_held = machine.device().device_budget().held_bytes();
      const std::int64_t host_held = machine.device().host_budget().held_bytes();
      const MachineRates rates = measure_machine(machine.setup(), machine.device(),
                                                 machine.workers(), volume.get(), machine.comm());
      EXPECT_PRED1(is_rate, rates.memory_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.core_memory_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.optimizer_bytes_per_s) << optimizer << ' ' << moments;
      EXPECT_PRED1(is_rate, rates.checksum_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.nvme.read_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.nvme.written_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.nvme.mixed_bytes_per_s);
      EXPECT_PRED1(is_rate, rates.nvme.core_s_per_byte_least);
      EXPECT_LE(rates.nvme.core_s_per_byte_least, rates.nvme.core_s_per_byte);
      EXPECT_EQ(rates.network.bytes_per_s, 0);  // one rank
      EXPECT_TRUE(machine.kept_its_budgets(device_held, host_held));
      // As the forecast says; less than a piece may be left.
      const std::int64_t written = volume->traffic().written_bytes;
      EXPECT_LE(written, measuring_bytes(volume->capacity_bytes()));
      EXPECT_GT(written, measuring_bytes(volume->capacity_bytes()) - kMiB);
    }
  }
}

// What does not fit is not known, and nothing fails.
TEST(MeasureMachine, WithoutRoomRatesAreNotKnown) {
  SmallMachine machine(small_options());
  const std::int64_t room = room_in(machine.setup(), offload::Tier::device, machine.device());
  const DeviceBuffer all = machine.device().allocate("all", room);
  const CoreMeasurement cores(machine.setup(), machine.device(), machine.workers());
  EXPECT_EQ(cores.memory(), 0);
  EXPECT_EQ(cores.core_memory(), 0);
  EXPECT_EQ(cores.checksums(), 0);
  EXPECT_EQ(cores.optimizer(), 0);
  const std::int64_t host_room = room_in(machine.setup(), offload::Tier::host, machine.device());
  const PinnedBuffer all_host = machine.device().allocate_pinned("all", host_room);
  const test::TemporaryFolder folder;
  const auto volume = volume_of(folder.path(), kMiB);
  EXPECT_FALSE(
      measure_drives(machine.setup(), machine.device(), machine.workers(), *volume).in_use());
  EXPECT_EQ(volume->traffic().written_bytes, 0);
}

// Three drives, whose requests complete one by one when as many are under way as there can be, or
// when no more have come for a while: which is where a measurement ends, and nowhere else.
class PatientStorage final : public io::Storage {
 public:
  static constexpr std::size_t kDepth = 12;

  PatientStorage() : drive_([this](const std::stop_token& stop) { complete(stop); }) {}

  void read(std::int64_t, AlignedSpan, io::IoGroup& group) override { add(group); }
  void write(std::int64_t, AlignedSpan, io::IoGroup& group) override { add(group); }
  void flush(io::IoGroup&) override {}
  std::int64_t capacity_bytes() const override { return 75 * kMiB; }
  std::int64_t alignment_bytes() const override { return kPageBytes; }
  std::string description() const override { return "patient"; }
  int devices() const override { return 3; }
  std::string device_path(int) const override { return "patient"; }
  io::StorageTraffic device_traffic(int) const override { return {}; }

  int requests() const { return requests_; }
  int times_that_no_more_came() const { return times_; }

 private:
  void add(io::IoGroup& group) {
    group.add();
    const std::lock_guard lock(mutex_);
    pending_.push_back(&group);
    ++requests_;
    changed_.notify_one();
  }

  void complete(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const std::size_t before = pending_.size();
      const auto more = [&] { return pending_.size() != before; };
      if (before == 0) {
        changed_.wait(lock, stop, more);
      } else if (before == kDepth) {
        pending_.front()->complete(nullptr);
        pending_.pop_front();
      } else if (!changed_.wait_for(lock, stop, std::chrono::milliseconds(50), more)) {
        ++times_;
        for (io::IoGroup* const group : pending_) group->complete(nullptr);
        pending_.clear();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<io::IoGroup*> pending_;
  int requests_ = 0;
  int times_ = 0;
  std::jthread drive_;
};

TEST(MeasureMachine, KeepsAsManyRequestsUnderWayAllTheTime) {
  SmallMachine machine(small_options());
  PatientStorage storage;
  measure_drives(machine.setup(), machine.device(), machine.workers(), storage);
  EXPECT_GT(storage.requests(), 500);
  // Once for each half of three measurements and three times beside workers, or a few times more
  // where this thread had to wait for a processor.
  EXPECT_LE(storage.times_that_no_more_came(), 20);
}

// One page: nothing can be written while something else is read.
TEST(MeasureMachine, ASinglePlaceIsNotMixed) {
  SmallMachine machine(small_options());
  const test::TemporaryFolder folder;
  const auto volume = volume_of(folder.path(), kPageBytes);
  const DriveRates rates =
      measure_drives(machine.setup(), machine.device(), machine.workers(), *volume);
  EXPECT_PRED1(is_rate, rates.read_bytes_per_s);
  EXPECT_PRED1(is_rate, rates.written_bytes_per_s);
  EXPECT_EQ(rates.mixed_bytes_per_s, 0);
}

}  // namespace
}  // namespace strata::engine
