// The state store on a storage with random faults, for many seeds: what a verified read gives is
// what was written, or the read fails with an error that names the state and was injected. No wrong
// byte ever passes as right.
//
// A seed that fails is printed; STRATA_FAULT_SEED=n runs only that one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/failure_latch.h"
#include "kernels/device/cpu_device.h"
#include "offload/extent_map.h"
#include "offload/state_store.h"
#include "tests/io/fault_seeds.h"
#include "tests/offload/small_plan.h"

namespace strata::offload::testing {
namespace {

using io::Fault;
using io::InjectedFault;
using test::mentions;

constexpr std::uint64_t kSeeds = 1000;
constexpr int kThreadsMax = 3;
constexpr int kRounds = 8;

// One shard of one state, or an activation record: written and read as a whole.
struct Item {
  int unit = -1;  // -1: a record
  int record = -1;
  StateKind kind = StateKind::weights;
  std::string name{};  // in errors
  std::int64_t offset_bytes = 0;
  AlignedSpan memory{};
  bool written = false;
  unsigned generation = 0;  // of the last write

  bool overlaps(std::int64_t first_byte, std::int64_t bytes) const {
    return first_byte < offset_bytes + memory.bytes() && offset_bytes < first_byte + bytes;
  }
  std::uint32_t word(std::int64_t i) const {
    return (static_cast<std::uint32_t>(offset_bytes + i) + generation * 7919u) * 2654435761u;
  }
  void fill() const {
    for (std::int64_t i = 0; i < memory.bytes() / 4; ++i) memory.as<std::uint32_t>()[i] = word(i);
  }
  bool holds() const {
    for (std::int64_t i = 0; i < memory.bytes() / 4; ++i) {
      if (memory.as<std::uint32_t>()[i] != word(i)) return false;
    }
    return true;
  }
};

std::vector<Item> items_of(const Plan& plan, AlignedSpan memory) {
  std::vector<Item> items;
  const ExtentMap map(plan);
  for (int id = 0; id < map.id_of_record(static_cast<int>(plan.record_bytes.size())); ++id) {
    const Extent& extent = map[id];
    Item item{.offset_bytes = extent.slot_offsets[0],
              .memory = memory.sub(extent.slot_offsets[0], extent.bytes)};
    if (extent.kind) {
      item.unit = extent.index;
      item.kind = *extent.kind;
      item.name = fmt::format("{}, {}, ", plan.units[static_cast<std::size_t>(item.unit)].name,
                              name_of(item.kind));
    } else {
      item.record = extent.index;
      item.name = fmt::format("activation record {},", item.record);
    }
    items.push_back(item);
  }
  return items;
}

struct Tally {
  int right_reads = 0;
  int mismatches = 0;
  int other_failures = 0;
};

// One thread's work, on items of its own.
class Worker {
 public:
  Worker(std::uint64_t seed, std::uint64_t number, StateStore& store, const io::FaultEngine& engine,
         std::vector<Item> items)
      : random_(seed * kThreadsMax + number),
        seed_text_(fmt::format("faults of seed {} ", seed)),
        store_(store),
        engine_(engine),
        items_(std::move(items)) {}

  void work() {
    for (int round = 0; round < kRounds && !over_ && problem_.empty(); ++round) {
      std::ranges::shuffle(items_, random_);
      const auto written = std::span(items_).first(random_() % 4);
      const auto rest = std::span(items_).subspan(written.size());
      std::vector<Item*> read;
      for (Item& item : rest) {
        if (item.written && read.size() < 4) read.push_back(&item);
      }
      for (Item& item : written) write(item);
      for (Item* item : read) start_read(*item);
      finish_writes(written);
      finish_reads(read);
    }
  }

  const std::string& problem() const { return problem_; }
  const Tally& tally() const { return tally_; }

 private:
  void write(Item& item) {
    ++item.generation;
    item.written = false;
    item.fill();
    if (item.unit < 0) {
      store_.write_record(item.record, item.memory, writes_);
    } else {
      store_.write(item.unit, item.kind, 0, item.memory, writes_);
    }
  }

  void start_read(const Item& item) {
    std::memset(item.memory.data(), 0xA5, static_cast<std::size_t>(item.memory.bytes()));
    if (item.unit < 0) {
      store_.read_record(item.record, item.memory, reads_);
    } else {
      store_.read(item.unit, item.kind, 0, item.memory, reads_);
    }
  }

  void finish_writes(std::span<Item> items) {
    try {
      writes_.wait();
      for (Item& item : items) item.written = true;
    } catch (const IoError& error) {
      judge_failure(error.what(), [&](const InjectedFault& fault) {
        return std::ranges::any_of(
            items, [&](const Item& i) { return i.overlaps(fault.offset_bytes, fault.bytes); });
      });
    }
  }

  void finish_reads(std::span<Item* const> items) {
    try {
      reads_.wait();
    } catch (const IoError& error) {
      const std::string text = error.what();
      if (mentions(text, "not those that were written")) {
        judge_mismatch(items, text);
      } else {
        judge_failure(text, [&](const InjectedFault& fault) {
          return std::ranges::any_of(
              items, [&](const Item* i) { return i->overlaps(fault.offset_bytes, fault.bytes); });
        });
      }
      return;
    }
    for (const Item* item : items) {
      ++tally_.right_reads;
      if (!item->holds()) complain("wrong bytes passed as right: " + item->name);
    }
  }

  template <typename Befell>
  void judge_failure(const std::string& failure, const Befell& befell) {
    ++tally_.other_failures;
    over_ |= io::ends_storage(failure);
    if (!mentions(failure, seed_text_) || !io::is_error_of(engine_.injected(), failure, befell)) {
      complain("an error that was not injected: " + failure);
    }
  }

  // It names one of the items, and a silent fault befell that one.
  void judge_mismatch(std::span<Item* const> items, const std::string& failure) {
    ++tally_.mismatches;
    const auto named = std::ranges::find_if(
        items, [&](const Item* item) { return mentions(failure, "read " + item->name); });
    if (named == items.end() || !mentions(failure, seed_text_)) {
      return complain("an error of something else: " + failure);
    }
    const std::vector<InjectedFault> faults = engine_.injected();
    const bool injected = std::ranges::any_of(faults, [&](const InjectedFault& fault) {
      return io::is_silent(fault.fault) &&
             ((*named)->overlaps(fault.offset_bytes, fault.bytes) ||
              (*named)->overlaps(fault.stored_offset_bytes, fault.bytes));
    });
    if (!injected) complain("a mismatch without a fault: " + failure);
  }

  void complain(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  std::mt19937_64 random_;
  const std::string seed_text_;
  StateStore& store_;
  const io::FaultEngine& engine_;
  std::vector<Item> items_;
  io::IoGroup writes_;
  VerifiedReads reads_;
  bool over_ = false;
  std::string problem_;
  Tally tally_;
};

class StoreFaults : public ::testing::Test {
 protected:
  std::string run_seed(std::uint64_t seed) {
    const io::FaultRules rules = io::rules_of_seed(seed);
    auto owned = std::make_unique<io::FaultEngine>(plan_.total_bytes(Tier::nvme), rules);
    const io::FaultEngine& engine = *owned;
    io::EngineStorage storage(io::options_of_seed(engine, rules), std::move(owned), nullptr);
    StateStore store(plan_, device_, &storage, workers_);

    std::vector<std::vector<Item>> shares(1 + seed % kThreadsMax);
    const std::vector<Item> items = items_of(plan_, memory_.span());
    for (std::size_t i = 0; i < items.size(); ++i) shares[i % shares.size()].push_back(items[i]);
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::vector<Item>& share : shares) {
      workers.push_back(
          std::make_unique<Worker>(seed, workers.size(), store, engine, std::move(share)));
    }
    std::vector<std::thread> threads;
    for (const auto& worker : workers) threads.emplace_back([&worker] { worker->work(); });
    for (std::thread& thread : threads) thread.join();

    for (const auto& worker : workers) {
      total_.right_reads += worker->tally().right_reads;
      total_.mismatches += worker->tally().mismatches;
      total_.other_failures += worker->tally().other_failures;
      if (!worker->problem().empty()) return worker->problem();
    }
    return "";
  }

  static PlanInput input() {
    PlanInput input = placed(Tier::nvme, Tier::nvme);
    input.block_elements = 4096;
    return input;
  }

  Plan plan_ = plan_of(input());
  FailureLatch failure_;
  WorkerSet workers_{2};
  Budget host_{"host memory", 16 * kMiB};
  CpuDevice device_{{kMiB, -1}, host_, workers_, failure_, nullptr};
  AlignedBuffer memory_{host_, "test", plan_.total_bytes(Tier::nvme)};
  Tally total_;
};

TEST_F(StoreFaults, EndWithTheRightBytesOrTheRightError) {
  io::for_each_seed(kSeeds, [&](std::uint64_t seed) { return run_seed(seed); });
  if (HasFatalFailure() || !io::runs_all_seeds()) return;
  EXPECT_GT(total_.right_reads, 5000);
  EXPECT_GT(total_.mismatches, 300);
  EXPECT_GT(total_.other_failures, 300);
}

}  // namespace
}  // namespace strata::offload::testing
