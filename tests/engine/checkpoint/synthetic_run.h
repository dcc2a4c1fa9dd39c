// Runs without a model: stores of known state, written and committed as training does it, and what
// a rank that goes on from one of them has.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "engine/step/state_access.h"
#include "io/volume.h"
#include "kernels/device/cpu_device.h"
#include "offload/state_store.h"
#include "offload/store/commit_log.h"
#include "offload/store/store_files.h"
#include "tests/engine/checkpoint/state_pattern.h"
#include "tests/offload/small_plan.h"

namespace strata::engine::testing {

inline constexpr const char* kRunId = "00112233445566778899aabbccddeeff";

struct RunShape {
  int world_size = 1;
  offload::StateDtypes dtypes{};
  offload::Tier tier = offload::Tier::nvme;
  offload::Durability durability = offload::Durability::commits;
};

inline offload::Plan plan_of(const RunShape& shape) {
  offload::PlanInput input = offload::testing::placed(shape.tier, offload::Tier::host);
  input.units[0].elements = 50'077;  // on four ranks the last has few, and blocks are cut on three
  input.world_size = shape.world_size;
  input.dtypes = shape.dtypes;
  input.durability = shape.durability;
  return offload::testing::plan_of(input);
}

inline store::Manifest manifest_of(const offload::Plan& plan) {
  std::vector<std::vector<store::Parameter>> parameters;
  for (const offload::UnitPlan& unit : plan.units) {
    parameters.push_back({{unit.name + ".weight", 1, unit.elements, 0, 0}});
  }
  return store::make_manifest(plan, std::move(parameters));
}

// One rank's store, new, published and kept.
inline std::unique_ptr<io::Volume> make_volume(const store::Manifest& manifest,
                                               const store::StoreIdentity& identity,
                                               const std::string& directory) {
  io::VolumeOptions options;
  options.directories = {{directory, 1e9}};
  options.file_name = store::store_file_name(identity);
  options.capacity_bytes = manifest.data_bytes;
  options.metadata_bytes = store::store_metadata_bytes(manifest);
  options.stripe_bytes = 64 << 10;
  auto volume = io::create_volume(options, nullptr);
  store::write_header(*volume, identity, manifest);
  volume->publish();
  volume->keep();
  return volume;
}

// What a rank of a run has: members as a run has them.
class RankOfRun {
 public:
  RankOfRun(const RunShape& shape, int rank, std::unique_ptr<io::Volume> volume)
      : rank(rank), plan(plan_of(shape)), manifest(manifest_of(plan)), volume(std::move(volume)) {}

  RankOfRun(const RunShape& shape, int rank, const std::string& run_id,
            const std::string& directory)
      : RankOfRun(shape, rank, nullptr) {
    volume = make_volume(manifest, {run_id, rank, shape.world_size, "/run"}, directory);
    start();
  }

  // With the volume there.
  void start() {
    store = std::make_unique<offload::StateStore>(plan, device, volume.get(), workers);
    access = std::make_unique<StateAccess>(*store, device, scratch.span());
    header = store::read_header(*volume);
    log = std::make_unique<store::CommitLog>(*volume, volume->file(0), header, manifest,
                                             log_staging.span());
    table.live_slots.resize(plan.units.size());
    table.checksums.resize(static_cast<std::size_t>(manifest.committed_blocks()));
  }

  // An update of everything to `version` of the pattern.
  void update(std::uint64_t version) {
    for_each_block(
        [&](int unit, offload::StateKind kind, std::int64_t block, const StatePattern& pattern) {
          const auto bytes = bytes_of(unit, block, pattern, version, Padding::garbage);
          access->write(unit, kind, block * plan.block_bytes(kind), bytes);
        });
    access->flush();
    for (int unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
      store->end_update(unit);
    }
  }

  static store::Snapshot snapshot_of(std::int64_t step) {
    return {.data_position = step * 7, .schedule_step = step, .optimizer_step = step};
  }
  void commit(std::int64_t step, store::SuperblockKind kind = store::SuperblockKind::commit) {
    const bool started = kind == store::SuperblockKind::started;
    if (!started) store->fill(table);
    log->write(kind, step, snapshot_of(step), started ? nullptr : &table);
    store->protect_live_slots();
  }

  // Everything this rank has, read back, is `version` of the pattern.
  void expect_state(std::uint64_t version, Padding padding) {
    for_each_block(
        [&](int unit, offload::StateKind kind, std::int64_t block, const StatePattern& pattern) {
          const auto expected = bytes_of(unit, block, pattern, version, padding);
          std::vector<std::byte> found(expected.size());
          access->read(unit, kind, block * plan.block_bytes(kind), found);
          EXPECT_TRUE(found == expected)
              << "rank " << rank << ": " << plan.units[std::size_t(unit)].name << ", "
              << offload::name_of(kind) << ", block " << block;
        });
  }

  const int rank;
  const offload::Plan plan;
  const store::Manifest manifest;
  FailureLatch failure;
  WorkerSet workers{2};
  Budget host{"host memory", 32 << 20};
  CpuDevice device{{8 << 20, -1}, host, workers, failure, nullptr};
  AlignedBuffer scratch{host, "scratch", 4 * plan.largest_block_bytes()};
  AlignedBuffer staging{host, "staging", plan.checkpoint_staging_bytes()};
  AlignedBuffer log_staging{host, "log", store::CommitLog::staging_bytes(manifest)};
  std::unique_ptr<io::Volume> volume;
  std::unique_ptr<offload::StateStore> store;
  std::unique_ptr<StateAccess> access;
  store::FileHeader header;
  std::unique_ptr<store::CommitLog> log;
  store::CommitTable table;

 private:
  template <typename Body>
  void for_each_block(const Body& body) const {
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
      const offload::UnitPlan& unit = plan.units[static_cast<std::size_t>(u)];
      for (const offload::StateKind kind : offload::kLastingKinds) {
        if (plan.shard_bytes(unit, kind) == 0) continue;
        const StatePattern pattern{u, kind, plan.dtypes, unit.elements};
        for (std::int64_t block = 0; block * plan.block_elements < unit.shard_elements; ++block) {
          body(u, kind, block, pattern);
        }
      }
    }
  }
  std::vector<std::byte> bytes_of(int u, std::int64_t block, StatePattern pattern,
                                  std::uint64_t version, Padding padding) const {
    const offload::UnitPlan& unit = plan.units[static_cast<std::size_t>(u)];
    const std::int64_t before = block * plan.block_elements;
    pattern.version = version;
    return pattern.block(rank * unit.shard_elements + before,
                         std::min(plan.block_elements, unit.shard_elements - before), padding);
  }
};

}  // namespace strata::engine::testing
