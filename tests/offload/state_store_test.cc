// What StateStore promises beyond moving bytes: damage on the drive is found and named.
#include "offload/state_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "io/fault_storage.h"
#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "kernels/device/cpu_device.h"
#include "tests/offload/small_plan.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"

namespace strata::offload::testing {
namespace {

using test::error_text;
using test::mentions;

constexpr std::int64_t kBlock = 4096;  // elements
constexpr int kTable = 0;              // a unit of 20,000 elements: five blocks

PlanInput on_nvme() {
  PlanInput input = placed(Tier::nvme, Tier::nvme);
  input.block_elements = kBlock;
  return input;
}

// A store on memory that a test can reach around.
struct Machine {
  explicit Machine(const PlanInput& input) : plan(plan_of(input)) {}

  Plan plan;
  FailureLatch failure;
  WorkerSet workers{2};
  Budget host{"host memory", 16 * kMiB};
  CpuDevice device{{1 * kMiB, -1}, host, workers, failure, nullptr};
  std::unique_ptr<io::Storage> drive = io::make_memory_storage(plan.total_bytes(Tier::nvme));
  StateStore store{plan, device, drive.get(), workers};
  AlignedBuffer buffer{host, "test", 2 * kMiB};
  io::IoGroup group;
  VerifiedReads reads;

  std::int64_t bytes(int unit, StateKind kind) const {
    return plan.shard_bytes(plan.units[static_cast<std::size_t>(unit)], kind);
  }
  AlignedSpan fill(std::int64_t bytes, unsigned seed) {
    std::mt19937 generator(seed);
    std::generate_n(buffer.as<std::uint32_t>(), bytes / 4, generator);
    return buffer.span(0, bytes);
  }
  void write(int unit, StateKind kind, unsigned seed) {
    store.write(unit, kind, 0, fill(bytes(unit, kind), seed), group);
    group.wait();
  }
  void read(int unit, StateKind kind) {
    store.read(unit, kind, 0, buffer.span(0, bytes(unit, kind)), reads);
    reads.wait();
  }
  std::int64_t place(int unit, StateKind kind) const {
    return ExtentMap(plan).of(unit, kind).slot_offsets[0];  // the store does not show the drive
  }
  // Changes what the drive holds, behind the store's back.
  void on_drive(std::int64_t offset, std::int64_t bytes,
                const std::function<void(std::byte*)>& change) {
    const AlignedSpan span = buffer.span(1 * kMiB, bytes);
    drive->read(offset, span, group);
    group.wait();
    change(span.data());
    drive->write(offset, span, group);
    group.wait();
  }
};

// Bytes of one, of an f32 moment.
constexpr std::int64_t kMomentBlock = kBlock * 4;

TEST(StateStore, ReadsBackWhatWasWrittenAndCountsIt) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  machine.write(kTable, StateKind::weights, 2);
  machine.read(kTable, StateKind::weights);
  std::mt19937 generator(2);
  const auto* words = machine.buffer.as<std::uint32_t>();
  const std::int64_t bytes = machine.bytes(kTable, StateKind::weights);
  EXPECT_TRUE(std::all_of(words, words + bytes / 4,
                          [&](std::uint32_t word) { return word == generator(); }));
  Traffic expected;
  expected.add(Link::nvme_read, MovedKind::weights, 20480 * 2);
  expected.add(Link::nvme_written, MovedKind::weights, 20480 * 2);
  expected.add(Link::nvme_written, MovedKind::moment1, 20480 * 4);
  EXPECT_EQ(machine.store.ledger().total(), expected);
}

TEST(StateStore, AFlippedBitIsFoundAndNamed) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  const std::int64_t block = machine.place(kTable, StateKind::moment1) + 2 * kMomentBlock;
  machine.on_drive(block, kMomentBlock, [](std::byte* bytes) { bytes[777] ^= std::byte{4}; });
  const auto text = error_text<IoError>([&] { machine.read(kTable, StateKind::moment1); });
  EXPECT_TRUE(mentions(text, "table, moment1, elements 8192 to 12287 of this rank's shard"))
      << text;
  EXPECT_TRUE(mentions(text, machine.drive->locate(block))) << text;
  EXPECT_TRUE(mentions(text, "16384 bytes")) << text;
}

TEST(StateStore, AfterAMismatchOtherReadsGoOn) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  machine.write(kTable, StateKind::moment2, 2);
  machine.on_drive(machine.place(kTable, StateKind::moment1), kMomentBlock,
                   [](std::byte* bytes) { bytes[0] ^= std::byte{1}; });
  EXPECT_THROW(machine.read(kTable, StateKind::moment1), IoError);
  EXPECT_NO_THROW(machine.read(kTable, StateKind::moment2));
}

TEST(StateStore, ALostWriteIsFound) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  const std::int64_t block = machine.place(kTable, StateKind::moment1) + kMomentBlock;
  std::vector<std::byte> before(kMomentBlock);
  machine.on_drive(block, kMomentBlock,
                   [&](std::byte* bytes) { std::copy_n(bytes, kMomentBlock, before.begin()); });
  machine.write(kTable, StateKind::moment1, 2);
  machine.on_drive(block, kMomentBlock, [&](std::byte* bytes) {
    std::copy_n(before.begin(), kMomentBlock, bytes);  // as if the second write had not been
  });
  const auto text = error_text<IoError>([&] { machine.read(kTable, StateKind::moment1); });
  EXPECT_TRUE(mentions(text, "elements 4096 to 8191")) << text;
}

// Intact bytes, in the place of others: each of them alone would pass a checksum without a place.
TEST(StateStore, MisdirectedWritesAreFound) {
  const auto swap = [](Machine& machine, std::int64_t a, std::int64_t b) {
    std::vector<std::byte> first(kMomentBlock);
    machine.on_drive(a, kMomentBlock,
                     [&](std::byte* bytes) { std::copy_n(bytes, kMomentBlock, first.begin()); });
    machine.on_drive(b, kMomentBlock, [&](std::byte* bytes) {
      std::swap_ranges(bytes, bytes + kMomentBlock, first.begin());
    });
    machine.on_drive(a, kMomentBlock,
                     [&](std::byte* bytes) { std::copy_n(first.begin(), kMomentBlock, bytes); });
  };
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  machine.write(kTable, StateKind::moment2, 2);
  const std::int64_t moment1 = machine.place(kTable, StateKind::moment1);
  const std::int64_t moment2 = machine.place(kTable, StateKind::moment2);
  swap(machine, moment1, moment1 + kMomentBlock);  // within an extent
  EXPECT_THROW(machine.read(kTable, StateKind::moment1), IoError);
  swap(machine, moment1, moment1 + kMomentBlock);
  EXPECT_NO_THROW(machine.read(kTable, StateKind::moment1));
  swap(machine, moment1, moment2);  // of two extents
  EXPECT_THROW(machine.read(kTable, StateKind::moment1), IoError);
  EXPECT_THROW(machine.read(kTable, StateKind::moment2), IoError);
}

// The same bytes written to two places must not look alike.
TEST(StateStore, EqualBytesInOtherPlacesHaveOtherChecksums) {
  Machine machine(on_nvme());
  machine.fill(20480 * 4, 1);
  for (const StateKind kind : {StateKind::moment1, StateKind::moment2}) {
    machine.store.write(kTable, kind, 0, machine.buffer.span(0, 20480 * 4), machine.group);
  }
  machine.group.wait();
  std::memcpy(machine.buffer.data() + kMomentBlock, machine.buffer.data(), kMomentBlock);
  machine.drive->write(machine.place(kTable, StateKind::moment1) + kMomentBlock,
                       machine.buffer.span(0, kMomentBlock), machine.group);
  machine.group.wait();
  const auto text = error_text<IoError>([&] { machine.read(kTable, StateKind::moment1); });
  EXPECT_TRUE(mentions(text, "elements 4096 to 8191")) << text;
}

TEST(StateStore, PartsOfAShardAreReadByWholeBlocks) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  machine.on_drive(machine.place(kTable, StateKind::moment1), kMomentBlock,
                   [](std::byte* bytes) { bytes[9] ^= std::byte{1}; });
  const auto read = [&](std::int64_t first_block, std::int64_t blocks) {
    machine.store.read(kTable, StateKind::moment1, first_block * kMomentBlock,
                       machine.buffer.span(0, blocks * kMomentBlock), machine.reads);
    machine.reads.wait();
  };
  EXPECT_NO_THROW(read(1, 3));
  EXPECT_NO_THROW(read(4, 1));
  EXPECT_THROW(read(0, 2), IoError);
}

TEST(StateStore, SeveralReadsAreCheckedTogetherAndTheFirstIsNamed) {
  Machine machine(on_nvme());
  machine.write(kTable, StateKind::moment1, 1);
  machine.write(kTable, StateKind::moment2, 2);
  for (const StateKind kind : {StateKind::moment1, StateKind::moment2}) {
    machine.on_drive(machine.place(kTable, kind) + 3 * kMomentBlock, kMomentBlock,
                     [](std::byte* bytes) { bytes[0] ^= std::byte{1}; });
  }
  const auto read_both = [&] {
    machine.store.read(kTable, StateKind::moment2, 0, machine.buffer.span(0, 20480 * 4),
                       machine.reads);
    machine.store.read(kTable, StateKind::moment1, 0, machine.buffer.span(20480 * 4, 20480 * 4),
                       machine.reads);
    machine.reads.wait();
  };
  EXPECT_TRUE(mentions(error_text<IoError>(read_both), "table, moment2, elements 12288 to 16383"));
}

TEST(StateStore, ActivationRecordsAreChecked) {
  Machine machine(on_nvme());
  const std::int64_t bytes = 8192;  // 5,003 in whole pages
  machine.store.write_record(3, machine.fill(bytes, 1), machine.group);
  machine.group.wait();
  const ExtentMap extents(machine.plan);
  const std::int64_t place = extents[extents.id_of_record(3)].slot_offsets[0];
  const auto read = [&] {
    machine.store.read_record(3, machine.buffer.span(0, bytes), machine.reads);
    machine.reads.wait();
  };
  EXPECT_NO_THROW(read());
  machine.on_drive(place, bytes, [](std::byte* data) { data[8191] ^= std::byte{128}; });
  const auto text = error_text<IoError>(read);
  EXPECT_TRUE(mentions(text, "activation record 3, bytes 0 to 8191")) << text;
  const Traffic counted = machine.store.ledger().total(Account::pass);
  EXPECT_EQ(counted.bytes(Link::nvme_read, MovedKind::activations), 2 * bytes);
}

// A partial sum is f32, the final gradient that takes its place is half as long and ends within a
// block of the sum's.
TEST(StateStore, AFinalGradientMayBeShorterThanThePartialSumBeforeIt) {
  PlanInput input = on_nvme();
  input.dtypes.gradients = Dtype::bf16;
  Machine machine(input);
  const std::int64_t elements = machine.plan.units[kTable].shard_elements;
  for (const std::int64_t bytes : {elements * 4, elements * 2}) {
    machine.store.write(kTable, StateKind::gradients, 0, machine.fill(bytes, 5), machine.group);
    machine.group.wait();
    machine.on_drive(machine.place(kTable, StateKind::gradients), 4096, [](std::byte*) {});
    machine.store.read(kTable, StateKind::gradients, 0, machine.buffer.span(0, bytes),
                       machine.reads);
    EXPECT_NO_THROW(machine.reads.wait());
  }
}

TEST(StateStore, NamesTheBytesOfAGradient) {
  PlanInput input = on_nvme();
  input.dtypes.gradients = Dtype::bf16;
  Machine machine(input);
  const std::int64_t bytes = machine.plan.units[kTable].shard_elements * 4;
  machine.store.write(kTable, StateKind::gradients, 0, machine.fill(bytes, 5), machine.group);
  machine.group.wait();
  // Block 3 is 8 KiB of f32 from byte 24,576 on.
  machine.on_drive(machine.place(kTable, StateKind::gradients) + 24576, 4096,
                   [](std::byte* data) { data[0] ^= std::byte{1}; });
  const auto text = error_text<IoError>([&] {
    machine.store.read(kTable, StateKind::gradients, 0, machine.buffer.span(0, bytes),
                       machine.reads);
    machine.reads.wait();
  });
  EXPECT_TRUE(mentions(text, "table, gradients, bytes 24576 to 32767 of this")) << text;
}

TEST(StateStore, ChecksumMemoryIsWhatWasPlanned) {
  const PlanInput input = on_nvme();
  Machine machine(input);
  const auto entries = machine.host.entries();
  const auto held = std::find_if(entries.begin(), entries.end(),
                                 [](const auto& entry) { return entry.tag == "checksums"; });
  ASSERT_NE(held, entries.end());
  EXPECT_EQ(held->bytes, round_up(machine.plan.checksum_bytes(), kPageBytes));
  // By hand: shards of 5, 3, 3, 3 and 1 blocks, five kinds; the table's gradient is f32 either way.
  // Six records of two pages fit a block each. 8 bytes an entry.
  EXPECT_EQ(machine.plan.checksum_bytes(), ((5 + 3 + 3 + 3 + 1) * 5 + 6) * 8);
}

TEST(StateStore, TransfersAllocateNothing) {
  Machine machine(on_nvme());
  const auto round = [&] {
    machine.write(kTable, StateKind::moment1, 1);
    machine.read(kTable, StateKind::moment1);
  };
  round();  // warm
  const std::int64_t before = test::allocation_count;
  round();
  EXPECT_EQ(test::allocation_count - before, 0);
}

using StateStoreDeathTest = ::testing::Test;

TEST(StateStoreDeathTest, ReadingWhatWasNeverWrittenIsAProgrammerError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine machine(on_nvme());
        machine.read(kTable, StateKind::moment1);
      },
      "never written");
}

// A partial sum is no longer there once a final gradient, half as long, was written over it.
TEST(StateStoreDeathTest, ReadingPastWhatWasLastWrittenIsAProgrammerError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PlanInput input = on_nvme();
  input.dtypes.gradients = Dtype::bf16;
  EXPECT_DEATH(
      {
        Machine machine(input);
        const std::int64_t elements = machine.plan.units[kTable].shard_elements;
        for (const std::int64_t bytes : {elements * 4, elements * 2}) {
          machine.store.write(kTable, StateKind::gradients, 0, machine.fill(bytes, 5),
                              machine.group);
          machine.group.wait();
        }
        machine.store.read(kTable, StateKind::gradients, 0, machine.buffer.span(0, elements * 4),
                           machine.reads);
        machine.reads.wait();
      },
      "never written");
}

TEST(StateStoreDeathTest, ATransferThatStartsWithinABlockIsAProgrammerError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine machine(on_nvme());
        machine.store.write(kTable, StateKind::moment1, 4096, machine.fill(kMomentBlock, 1),
                            machine.group);
      },
      "in blocks of");
}

}  // namespace
}  // namespace strata::offload::testing
