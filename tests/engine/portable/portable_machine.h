// Stores of a small model that ranks left, whose every value follows from parameter, state and
// element: an oracle that knows of no ranks, blocks or files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/portable/copy.h"
#include "engine/portable/files.h"
#include "engine/portable/publish.h"
#include "io/fault_storage.h"
#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"
#include "offload/store/checksum.h"
#include "tests/offload/small_plan.h"

namespace strata::engine::testing {

using offload::StateKind;

inline constexpr std::int64_t kBlock = 4096;
inline constexpr const char* kConv1d = "h.0.attn.c_attn.weight";

// A table in two units, a matrix that is transposed, over several blocks and shards, and vectors
// that share groups of int8 with it. The last unit is frozen.
inline const std::vector<std::vector<store::Parameter>>& small_parameters() {
  static const std::vector<std::vector<store::Parameter>> units{
      {{"wte.weight", 90, 72, 0, 0}},
      {{"wte.weight", 33, 72, 90, 0}},
      {{"h.0.ln_1.weight", 1, 72, 0, 0},
       {kConv1d, 216, 72, 0, 128},
       {"h.0.attn.c_attn.bias", 1, 216, 0, 128 + 216 * 72}},
      {{"ln_f.weight", 1, 72, 0, 0}, {"ln_f.bias", 1, 72, 0, 128}}};
  return units;
}

inline offload::Plan plan_of(offload::StateDtypes dtypes, int world_size,
                             offload::Durability durability) {
  offload::PlanInput input = offload::testing::placed(offload::Tier::host, offload::Tier::host);
  input.units.clear();
  int number = 0;
  for (const auto& parameters : small_parameters()) {
    const store::Parameter& last = parameters.back();
    input.units.push_back({"unit" + std::to_string(number++),
                           last.offset_elements + last.rows * last.columns, 1, false});
  }
  input.units[3].frozen = true;
  input.uses = {0, 1, 2, 3, 3, 2, 1, 0};
  input.forward_uses = 4;
  input.dtypes = dtypes;
  input.world_size = world_size;
  input.durability = durability;
  input.block_elements = kBlock;
  input.chunk_elements = kBlock;
  return offload::testing::plan_of(input);
}

// What every state of every element is: 0, the master, or a StateKind of a moment.
inline std::uint64_t value_bits(const std::string& parameter, int state, std::int64_t element) {
  SplitMix64 random{std::hash<std::string>{}(parameter) + static_cast<std::uint64_t>(state) * 977 +
                    static_cast<std::uint64_t>(element) * 1'000'003};
  return random();
}
inline float value_of(const std::string& parameter, int state, std::int64_t element) {
  // All 24 bits of a mantissa count, so that a remainder that is lost shows.
  return static_cast<float>(value_bits(parameter, state, element) >> 40) / (1 << 20) - 8.0f;
}

// What the padding and the gaps between tensors hold.
enum class Gaps { zero, junk };

// The bytes of one block of a state of a rank's shard.
class BlockContents {
 public:
  BlockContents(const offload::Plan& plan, int rank, Gaps gaps) : plan_(plan), rank_(rank) {
    fill_ = gaps == Gaps::junk ? std::byte{0x5a} : std::byte{0};
  }

  std::vector<std::byte> block(int unit, StateKind kind, std::int64_t block) const {
    const std::int64_t shard = plan_.units[static_cast<std::size_t>(unit)].shard_elements;
    const std::int64_t elements = std::min(kBlock, shard - block * kBlock);
    std::vector<std::byte> bytes(static_cast<std::size_t>(plan_.bytes_of_elements(kind, elements)),
                                 fill_);
    const std::int64_t begin = rank_ * shard + block * kBlock;
    for (const store::Parameter& piece : small_parameters()[static_cast<std::size_t>(unit)]) {
      for (std::int64_t i = 0; i < piece.rows * piece.columns; ++i) {
        const std::int64_t at = piece.offset_elements + i - begin;
        if (at < 0 || at >= elements) continue;
        put(bytes, piece.name, kind, piece.first_row * piece.columns + i, at, elements, unit,
            begin);
      }
    }
    return bytes;
  }

 private:
  template <typename T>
  static void store(std::vector<std::byte>& bytes, std::int64_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }

  void put(std::vector<std::byte>& bytes, const std::string& name, StateKind kind,
           std::int64_t element, std::int64_t at, std::int64_t elements, int unit,
           std::int64_t begin) const {
    const int state = static_cast<int>(kind);
    const float master = value_of(name, 0, element);
    if (kind == StateKind::weights) {
      if (plan_.dtypes.weights == Dtype::f32) return store(bytes, at * 4, master);
      return store(bytes, at * 2, split_master(master).weight);
    }
    if (kind == StateKind::remainder) return store(bytes, at * 2, split_master(master).remainder);
    const std::uint64_t bits = value_bits(name, state, element);
    switch (plan_.dtypes.moments) {
      case MomentFormat::f32:
        return store(bytes, at * 4, value_of(name, state, element));
      case MomentFormat::bf16:
        return store(bytes, at * 2, static_cast<std::uint16_t>(bits));
      case MomentFormat::int8: {
        store(bytes, at, static_cast<std::uint8_t>(bits));
        // Of a group of the unit, whoever has a part of it.
        const std::int64_t group = (begin + at) / kScaleElements;
        return store(bytes, elements + at / kScaleElements * 4,
                     value_of("scales of " + std::to_string(unit), state, group));
      }
    }
  }

  const offload::Plan& plan_;
  int rank_;
  std::byte fill_;
};

// Writes one rank's state to the first slots; returns the table of a commit of them.
inline store::CommitTable write_state(io::Storage& data, const offload::Plan& plan,
                                      const store::Manifest& manifest, int rank) {
  Budget budget("host memory", 1 << 20);
  const AlignedBuffer buffer(budget, "block", 64 << 10);
  const BlockContents contents(plan, rank, Gaps::junk);
  store::CommitTable table;
  table.live_slots.assign(manifest.units.size(), 0);
  for (int unit = 0; unit < static_cast<int>(manifest.units.size()); ++unit) {
    const store::StoredUnit& stored = manifest.units[static_cast<std::size_t>(unit)];
    for (const StateKind kind : offload::kLastingKinds) {
      const auto& extent = stored.extents[static_cast<std::size_t>(kind)];
      if (!extent) continue;
      std::int64_t offset = extent->slot_offsets[0];
      for (std::int64_t block = 0; block * kBlock < stored.shard_elements; ++block) {
        const std::vector<std::byte> bytes = contents.block(unit, kind, block);
        std::memcpy(buffer.data(), bytes.data(), bytes.size());
        io::IoGroup group;
        data.write(offset, buffer.span(0, std::ssize(bytes)), group);
        group.wait();
        offset += std::ssize(bytes);
        // docs/store-format.md, "Checksums".
        const auto seed = static_cast<std::uint64_t>(5 * unit + static_cast<int>(kind)) << 40;
        table.checksums.push_back(
            std::max<std::uint64_t>(store::checksum(bytes.data(), std::ssize(bytes),
                                                    seed + static_cast<std::uint64_t>(block)),
                                    1));
      }
    }
  }
  return table;
}

// One rank's commit, in memory.
class StoredRank {
 public:
  StoredRank(const offload::Plan& plan, const store::Manifest& manifest, int rank)
      : storage_(io::make_memory_storage(manifest.data_bytes)),
        reader_(*storage_, manifest, rank),
        table_(write_state(*storage_, plan, manifest, rank)),
        rank_(rank) {}

  const store::BlockReader& blocks() const { return reader_; }
  store::CommitTable& table() { return table_; }
  CommitSource source() const { return {reader_, table_, rank_}; }

 private:
  std::unique_ptr<io::Storage> storage_;
  store::BlockReader reader_;
  store::CommitTable table_;
  int rank_;
};

// The store that a run on `world_size` ranks left at step 7.
struct StoredModel {
  StoredModel(offload::StateDtypes dtypes, int world_size)
      : plan(plan_of(dtypes, world_size, offload::Durability::commits)),
        manifest(store::make_manifest(plan, small_parameters())) {
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.push_back(std::make_unique<StoredRank>(plan, manifest, rank));
    }
    origin.step = 7;
    origin.snapshot = {56, 7, 6, 1, {1, 2, 3, ~std::uint64_t{0}}};
    origin.world_size = world_size;
    origin.options = {{"model", "gpt2"}};
    origin.arithmetic = {{"isa", "avx2"}};
    origin.run = "/runs/mine";
  }

  // Writes the portable checkpoint as one process does for all ranks.
  void export_to(const std::string& path, const PortableFormat& format) const {
    const PortableLayout layout(manifest, format);
    Budget budget("host memory", portable_copy_bytes(manifest));
    const AlignedBuffer memory(budget, "copy", portable_copy_bytes(manifest));
    const std::atomic<bool> never{false};
    PortableFolder folder(path);
    PortableFiles files(folder.temporary_path(), file_names(layout), PortableFiles::Access::write);
    for (int file = 0; file < std::ssize(layout.files()); ++file) {
      files.write_header(file, layout.files()[static_cast<std::size_t>(file)]);
    }
    std::vector<std::vector<std::uint64_t>> checksums(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      copy_shard(layout, ranks[r]->source(), files, memory.span(), never, checksums[r]);
    }
    files.sync();
    publish_portable(folder, layout, origin, {{"config.json", "{}\n"}}, checksums,
                     ExistingFolder::refuse);
  }

  offload::Plan plan;
  store::Manifest manifest;
  std::vector<std::unique_ptr<StoredRank>> ranks;
  PortableOrigin origin;
};

inline std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace strata::engine::testing
