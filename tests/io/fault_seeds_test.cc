// Random work on a storage with random faults, for many seeds: what is read is right, or is wrong
// because of a fault that was injected there; what fails, fails with the error that was injected.
// Nothing else goes wrong, nothing hangs, and no fault stays without effect.
//
// A seed that fails is printed; STRATA_FAULT_SEED=n runs only that one.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "io/engine_storage.h"
#include "io/fault_engine.h"
#include "tests/io/failure_of.h"
#include "tests/io/fault_seeds.h"

namespace strata::io {
namespace {

constexpr std::uint64_t kSeeds = 1000;
constexpr int kThreadsMax = 3;
constexpr int kGroups = 2;  // of a thread, in flight at once
constexpr int kExtentsOfGroup = 3;
constexpr int kExtents = kGroups * kExtentsOfGroup;
constexpr int kRounds = 12;
constexpr std::int64_t kExtentPages = 8;
constexpr std::int64_t kExtentBytes = kExtentPages * kPageBytes;
constexpr std::int64_t kCapacityBytes = kThreadsMax * kExtents * kExtentBytes;

// What tests count over all seeds, to see that each happened.
struct Tally {
  std::array<int, kFaults> injected{};
  int right_reads = 0;
  int wrong_reads = 0;
  int failures = 0;
};

// Where one request at a time reads or writes, always the same bytes of the storage.
struct Extent {
  std::int64_t offset_bytes = 0;
  AlignedSpan memory;
  std::uint64_t generation = 0;   // of the last write that succeeded
  std::uint64_t generations = 0;  // of writes that were tried
  std::size_t faults_before_write = 0;
  // Of the request under way.
  std::optional<Operation> operation;
  std::size_t faults_before = 0;

  bool overlaps(std::int64_t first_byte, std::int64_t bytes) const {
    return first_byte < offset_bytes + memory.bytes() && offset_bytes < first_byte + bytes;
  }
};

std::uint64_t word_of(std::int64_t offset_bytes, std::uint64_t generation) {
  return (static_cast<std::uint64_t>(offset_bytes) << 16 | generation) * 0x9E3779B97F4A7C15u;
}

void fill(const Extent& extent, std::uint64_t generation) {
  auto* words = extent.memory.as<std::uint64_t>();
  for (std::int64_t i = 0; i < extent.memory.bytes() / 8; ++i) {
    words[i] = word_of(extent.offset_bytes + i * 8, generation);
  }
}

bool holds(const Extent& extent, std::uint64_t generation) {
  const auto* words = extent.memory.as<std::uint64_t>();
  for (std::int64_t i = 0; i < extent.memory.bytes() / 8; ++i) {
    if (words[i] != word_of(extent.offset_bytes + i * 8, generation)) return false;
  }
  return true;
}

// One thread's work, on extents of its own.
class Worker {
 public:
  Worker(std::uint64_t seed, int number, Storage& storage, const FaultEngine& engine,
         AlignedSpan memory)
      : random_(seed * kThreadsMax + static_cast<std::uint64_t>(number)),
        seed_text_(fmt::format("faults of seed {} ", seed)),
        storage_(storage),
        engine_(engine) {
    for (int i = 0; i < kExtents; ++i) {
      const auto pages = 1 + static_cast<std::int64_t>(random_() % kExtentPages);
      Extent& extent = extents_[static_cast<std::size_t>(i)];
      extent.offset_bytes = (number * kExtents + i) * kExtentBytes;
      extent.memory = memory.sub(extent.offset_bytes, pages * kPageBytes);
    }
  }

  void work() {
    for (int round = 0; round < kRounds + kGroups; ++round) {
      const int group = round % kGroups;
      finish(group);
      if (round < kRounds && !over_ && problem_.empty()) submit(group);
    }
  }

  const std::string& problem() const { return problem_; }
  const Tally& tally() const { return tally_; }

 private:
  std::span<Extent> extents_of(int group) {
    return std::span(extents_).subspan(static_cast<std::size_t>(group) * kExtentsOfGroup,
                                       kExtentsOfGroup);
  }

  void submit(int group) {
    IoGroup& requests = groups_[static_cast<std::size_t>(group)];
    for (Extent& extent : extents_of(group)) {
      const std::uint64_t choice = random_() % 8;
      if (choice == 0) {
        storage_.read(extent.offset_bytes, extent.memory.sub(0, 0), requests);
        continue;
      }
      extent.faults_before = engine_.injected().size();
      if (choice < 5 && extent.generation != 0) {
        extent.operation = Operation::read;
        fill(extent, 0);
        storage_.read(extent.offset_bytes, extent.memory, requests);
      } else {
        extent.operation = Operation::write;
        fill(extent, ++extent.generations);
        storage_.write(extent.offset_bytes, extent.memory, requests);
      }
    }
    if (random_() % 4 == 0) storage_.flush(requests);
  }

  void finish(int group) {
    const std::string failure = failure_of(groups_[static_cast<std::size_t>(group)]);
    const std::vector<InjectedFault> faults = engine_.injected();
    if (!failure.empty()) {
      ++tally_.failures;
      over_ |= ends_storage(failure);
      const auto befell = [&](const InjectedFault& fault) {
        return fault.operation == Operation::flush ||
               std::ranges::any_of(extents_of(group), [&](const Extent& extent) {
                 return extent.operation && extent.overlaps(fault.offset_bytes, fault.bytes);
               });
      };
      if (!mentions(failure, seed_text_) || !is_error_of(faults, failure, befell)) {
        complain("an error that was not injected", failure);
      }
    }
    for (Extent& extent : extents_of(group)) {
      if (extent.operation) judge(extent, faults, failure);
      extent.operation.reset();
    }
  }

  void judge(Extent& extent, const std::vector<InjectedFault>& faults, const std::string& failure) {
    if (!failure.empty()) {
      if (extent.operation == Operation::write) extent.generation = 0;  // some of it
      return;
    }
    for (std::size_t i = extent.faults_before; i < faults.size(); ++i) {
      const Fault fault = faults[i].fault;
      const bool loud =
          fault == Fault::error || fault == Fault::full || fault == Fault::lost_completion;
      if (loud && faults[i].bytes > 0 && extent.overlaps(faults[i].offset_bytes, faults[i].bytes)) {
        complain("no error though one was injected", extent);
      }
    }
    if (extent.operation == Operation::write) {
      extent.generation = extent.generations;
      extent.faults_before_write = extent.faults_before;
    } else {
      judge_bytes(extent, faults);
    }
  }

  void judge_bytes(const Extent& extent, const std::vector<InjectedFault>& faults) {
    int certain = 0;   // faults that this read must see
    int possible = 0;  // and those that a write of this extent may have undone
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const InjectedFault& fault = faults[i];
      const bool here = extent.overlaps(fault.offset_bytes, fault.bytes);
      const std::size_t since =
          fault.fault == Fault::read_flip ? extent.faults_before : extent.faults_before_write;
      if (is_silent(fault.fault) && here && i >= since) {
        ++certain;
      } else if (fault.fault == Fault::misdirected_write &&
                 extent.overlaps(fault.stored_offset_bytes, fault.bytes)) {
        ++possible;
      }
    }
    const bool right = holds(extent, extent.generation);
    ++(right ? tally_.right_reads : tally_.wrong_reads);
    if (!right && certain + possible == 0) complain("wrong bytes without a fault", extent);
    // Two may cancel each other out.
    if (right && certain == 1 && possible == 0) complain("a fault without effect", extent);
  }

  void complain(const std::string& what, const Extent& extent) {
    complain(what, fmt::format("{} at offset {}, {} bytes", name_of(*extent.operation),
                               extent.offset_bytes, extent.memory.bytes()));
  }
  void complain(const std::string& what, const std::string& where) {
    if (problem_.empty()) problem_ = what + ": " + where;
  }

  std::mt19937_64 random_;
  const std::string seed_text_;
  Storage& storage_;
  const FaultEngine& engine_;
  std::array<Extent, kExtents> extents_;
  std::array<IoGroup, kGroups> groups_;
  bool over_ = false;  // the storage has failed for good; memory may still be the engine's
  std::string problem_;
  Tally tally_;
};

std::string run_seed(std::uint64_t seed, AlignedSpan memory, Tally& total) {
  const FaultRules rules = rules_of_seed(seed);
  auto owned = std::make_unique<FaultEngine>(kCapacityBytes, rules);
  const FaultEngine& engine = *owned;
  EngineStorage storage(options_of_seed(engine, rules), std::move(owned), nullptr);

  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint64_t i = 0; i < 1 + seed % kThreadsMax; ++i) {
    workers.push_back(std::make_unique<Worker>(seed, static_cast<int>(i), storage, engine, memory));
  }
  std::vector<std::thread> threads;
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->work(); });
  for (std::thread& thread : threads) thread.join();

  for (const InjectedFault& fault : engine.injected()) {
    ++total.injected[static_cast<std::size_t>(fault.fault)];
  }
  for (const auto& worker : workers) {
    total.right_reads += worker->tally().right_reads;
    total.wrong_reads += worker->tally().wrong_reads;
    total.failures += worker->tally().failures;
    if (!worker->problem().empty()) return worker->problem();
  }
  return "";
}

TEST(FaultSeeds, EndWithTheRightBytesOrTheRightError) {
  Budget budget("host memory", kCapacityBytes);
  AlignedBuffer memory(budget, "test", kCapacityBytes);
  Tally total;
  for_each_seed(kSeeds, [&](std::uint64_t seed) { return run_seed(seed, memory.span(), total); });
  if (HasFatalFailure() || !runs_all_seeds()) return;
  for (std::size_t fault = 1; fault < kFaults; ++fault) {
    EXPECT_GT(total.injected[fault], 20) << "fault " << fault;
  }
  EXPECT_GT(total.right_reads, 10000);
  EXPECT_GT(total.wrong_reads, 500);
  EXPECT_GT(total.failures, 500);
}

}  // namespace
}  // namespace strata::io
