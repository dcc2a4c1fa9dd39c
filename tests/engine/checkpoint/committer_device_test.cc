// A commit of states on the device waits for what is still on its way there.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "engine/checkpoint/committer.h"
#include "io/fault_storage.h"
#include "offload/store/block_reader.h"
#include "offload/store/manifest.h"
#include "tests/offload/small_machine.h"

namespace strata::engine {
namespace {

using offload::StateKind;
using offload::StateStore;
using offload::testing::kUnits;

offload::PlanInput on_device() {
  offload::PlanInput input = offload::testing::placed(offload::Tier::device, offload::Tier::device);
  input.durability = offload::Durability::commits;
  return input;
}

class CommitterOnDevice : public testing::Test {
 protected:
  CommitterOnDevice()
      : machine(on_device(), {}),
        manifest(
            store::make_manifest(machine.plan, std::vector<std::vector<store::Parameter>>(kUnits))),
        staging(machine.device.allocate_pinned("staging", 1 << 20)) {
    header.commit_table_bytes = store::commit_table_bytes(manifest);
    metadata = io::make_memory_storage(header.layout().bytes);
  }

  // Fills every state with `value`, by copies that are enqueued on two streams, as the optimizer's
  // and the weights' are, behind something slow.
  void enqueue_update(std::byte value) {
    values.assign(1 << 20, value);
    for (const auto& stream : streams) {
      stream->host_task([] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
    }
    for (int unit = 0; unit < kUnits; ++unit) {
      for (const StateKind kind : offload::kLastingKinds) {
        Stream& stream = *streams[kind == StateKind::weights ? 0 : 1];
        const auto bytes = machine.plan.shard_bytes(machine.store.unit(unit), kind);
        stream.copy(machine.store.device(unit, kind), values.data(), bytes);
      }
      machine.store.note_device_write(*streams[0], StateStore::DeviceWriter::weights);
      machine.store.note_device_write(*streams[1], StateStore::DeviceWriter::optimizer);
      machine.store.end_update(unit);
    }
  }

  offload::testing::SmallMachine machine;
  store::Manifest manifest;
  store::FileHeader header;
  std::unique_ptr<io::Storage> metadata;
  PinnedBuffer staging;
  std::vector<std::byte> values;
  std::array<std::unique_ptr<Stream>, 2> streams = {machine.device.make_stream("weights"),
                                                    machine.device.make_stream("optimizer")};
};

TEST_F(CommitterOnDevice, CopiesWhatTheUpdatesWrite) {
  const std::int64_t log_bytes = store::CommitLog::staging_bytes(manifest);
  store::CommitLog log(*machine.storage, *metadata, header, manifest, staging.span(0, log_bytes));
  Committer committer({machine.store, log, manifest, machine.device, machine.failure, nullptr, {}},
                      staging.span(log_bytes, (1 << 20) - log_bytes), std::nullopt);
  const PinnedBuffer block = machine.device.allocate_pinned("block", 1 << 16);
  for (const int step : {1, 2}) {
    const auto value = static_cast<std::byte>(step);
    enqueue_update(value);
    committer.want(step, {});
    committer.updates_applied();
    committer.before_updates();
    committer.updates_may_start();
    ASSERT_EQ(committer.committed_step(), step);
    const store::BlockReader reader(*machine.storage, manifest, 0);
    for (int unit = 0; unit < kUnits; ++unit) {
      for (const StateKind kind : offload::kLastingKinds) {
        for (std::int64_t b = 0; b < reader.blocks(unit, kind); ++b) {
          const std::int64_t bytes =
              reader.read(committer.committed_table(), unit, kind, b, block.span());
          EXPECT_EQ(std::count(block.data(), block.data() + bytes, value), bytes)
              << "step " << step << ", unit " << unit << ", " << offload::name_of(kind);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::engine
