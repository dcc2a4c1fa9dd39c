#include "engine/step/state_access.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "models/unit_init.h"

namespace strata::engine {

using offload::StateKind;
using offload::Tier;

namespace {

constexpr std::int64_t kTileElements = 16 * 1024;

// What one block of a shard is initialised to.
struct Block {
  explicit Block(std::int64_t elements)
      : master(static_cast<std::size_t>(elements)),
        weight(master.size()),
        remainder(master.size()),
        zeros(master.size()) {}
  std::vector<float> master;
  std::vector<bf16> weight;
  std::vector<std::int16_t> remainder;
  std::vector<float> zeros;  // of moments in any format
};

}  // namespace

StateAccess::StateAccess(offload::StateStore& store, Device& device, AlignedSpan scratch)
    : store_(store), copies_(device.make_stream("state copy")) {
  for (Part& part : parts_) part.writes.report_to(store.lasting_writes());
  if (scratch.bytes() == 0) return;
  const std::int64_t block_bytes = store.plan().largest_block_bytes();
  parts_used_ = std::min(parts_.size(), static_cast<std::size_t>(scratch.bytes() / block_bytes));
  STRATA_CHECK(parts_used_ > 0, "{} bytes of scratch memory for blocks of {}", scratch.bytes(),
               block_bytes);
  const auto count = static_cast<std::int64_t>(parts_used_);
  const std::int64_t bytes = scratch.bytes() / count / kPageBytes * kPageBytes;
  for (std::int64_t i = 0; i < count; ++i) {
    parts_[static_cast<std::size_t>(i)].memory = scratch.sub(i * bytes, bytes);
  }
}

StateAccess::Part& StateAccess::take_part() {
  STRATA_CHECK(parts_used_ > 0, "no scratch memory for state outside host memory");
  Part& part = parts_[taken_++ % parts_used_];
  part.writes.wait();
  return part;
}

std::int64_t StateAccess::whole_blocks(StateKind kind, const Part& part, std::size_t left) const {
  const std::int64_t block_bytes = store_.plan().block_bytes(kind);
  const auto left_bytes = static_cast<std::int64_t>(left);
  return left_bytes <= part.memory.bytes() ? left_bytes
                                           : part.memory.bytes() / block_bytes * block_bytes;
}

void StateAccess::flush() {
  for (Part& part : parts_) part.writes.wait();
}

void StateAccess::read(int unit, StateKind kind, std::int64_t offset_bytes,
                       std::span<std::byte> destination) {
  const Tier tier = store_.tier(unit, kind);
  if (tier == Tier::host) {
    std::memcpy(destination.data(), store_.host(unit, kind).data() + offset_bytes,
                destination.size());
    return;
  }
  flush();
  while (!destination.empty()) {
    Part& part = take_part();
    const std::int64_t bytes = whole_blocks(kind, part, destination.size());
    const AlignedSpan piece = part.memory.sub(0, bytes);
    if (tier == Tier::nvme) {
      store_.read(unit, kind, offset_bytes, piece, part.reads);
      part.reads.wait();
    } else {
      copies_->copy(piece.data(), store_.device(unit, kind) + offset_bytes, bytes);
      copies_->synchronize();
    }
    std::memcpy(destination.data(), piece.data(), static_cast<std::size_t>(bytes));
    destination = destination.subspan(static_cast<std::size_t>(bytes));
    offset_bytes += bytes;
  }
}

void StateAccess::write(int unit, StateKind kind, std::int64_t offset_bytes,
                        std::span<const std::byte> source) {
  const Tier tier = store_.tier(unit, kind);
  if (tier == Tier::host) {
    std::memcpy(store_.host(unit, kind).data() + offset_bytes, source.data(), source.size());
    return;
  }
  while (!source.empty()) {
    Part& part = take_part();
    const std::int64_t bytes = whole_blocks(kind, part, source.size());
    const AlignedSpan piece = part.memory.sub(0, bytes);
    std::memcpy(piece.data(), source.data(), static_cast<std::size_t>(bytes));
    if (tier == Tier::nvme) {
      store_.write(unit, kind, offset_bytes, piece, part.writes);
    } else {
      copies_->copy(store_.device(unit, kind) + offset_bytes, piece.data(), bytes);
      copies_->synchronize();
    }
    source = source.subspan(static_cast<std::size_t>(bytes));
    offset_bytes += bytes;
  }
}

void initialise_state(StateAccess& access, offload::StateStore& store, WorkerSet& workers,
                      const std::vector<models::UnitSpec>& units, std::uint64_t seed, int rank) {
  const offload::Plan& plan = store.plan();
  const bool split = plan.dtypes.weights == Dtype::bf16;
  Block block(plan.block_elements);
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    const std::int64_t shard = store.unit(u).shard_elements;
    for (std::int64_t first = 0; first < shard; first += plan.block_elements) {
      const std::int64_t count = std::min(plan.block_elements, shard - first);
      workers.parallel_for(ceil_div(count, kTileElements), [&](std::int64_t tile, int) {
        const std::int64_t from = tile * kTileElements;
        const std::int64_t size = std::min(kTileElements, count - from);
        models::initial_values(units[static_cast<std::size_t>(u)], seed,
                               rank * shard + first + from,
                               {block.master.data() + from, static_cast<std::size_t>(size)});
        for (std::int64_t i = from; i < from + size; ++i) {
          const auto index = static_cast<std::size_t>(i);
          const SplitMaster master = split_master(block.master[index]);
          block.weight[index] = master.weight;
          block.remainder[index] = master.remainder;
        }
      });
      const auto put = [&](StateKind kind, const auto& values) {
        if (plan.shard_bytes(store.unit(u), kind) == 0) return;
        const auto bytes_of = [&](std::int64_t elements) {
          return offload::state_bytes(kind, plan.dtypes, elements, plan.block_elements);
        };
        access.write(
            u, kind, bytes_of(first),
            std::as_bytes(std::span(values)).first(static_cast<std::size_t>(bytes_of(count))));
      };
      if (split) {
        put(StateKind::weights, block.weight);
      } else {
        put(StateKind::weights, block.master);
      }
      put(StateKind::remainder, block.remainder);
      put(StateKind::moment1, block.zeros);
      put(StateKind::moment2, block.zeros);
    }
  }
  access.flush();
}

namespace {

// Elements of a rank's shard that are not padding.
std::size_t own_elements(const offload::UnitPlan& unit, int rank) {
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(unit.elements - rank * unit.shard_elements, 0, unit.shard_elements));
}

}  // namespace

std::vector<float> read_master(StateAccess& access, const offload::StateStore& store, int unit,
                               int rank) {
  const offload::UnitPlan& planned = store.unit(unit);
  const auto shard = static_cast<std::size_t>(planned.shard_elements);
  std::vector<float> master(shard);
  if (store.plan().dtypes.weights == Dtype::f32) {
    access.read(unit, StateKind::weights, 0, std::as_writable_bytes(std::span(master)));
  } else {
    std::vector<bf16> weight(shard);
    std::vector<std::int16_t> remainder(shard);
    access.read(unit, StateKind::weights, 0, std::as_writable_bytes(std::span(weight)));
    access.read(unit, StateKind::remainder, 0, std::as_writable_bytes(std::span(remainder)));
    for (std::size_t i = 0; i < shard; ++i) master[i] = join_master(weight[i], remainder[i]);
  }
  master.resize(own_elements(planned, rank));
  return master;
}

namespace {

// Where an update goes to the other slot, the moments that it leaves as they are go with it.
void carry_moments(StateAccess& access, const offload::StateStore& store, int unit) {
  if (store.target_slot(unit) == store.live_slot(unit)) return;
  for (const StateKind kind : {StateKind::moment1, StateKind::moment2}) {
    if (store.tier(unit, kind) != Tier::nvme) continue;
    std::vector<std::byte> moment(
        static_cast<std::size_t>(store.plan().shard_bytes(store.unit(unit), kind)));
    access.read(unit, kind, 0, moment);
    access.write(unit, kind, 0, moment);
  }
}

}  // namespace

void write_master(StateAccess& access, offload::StateStore& store, int unit, int rank,
                  std::span<const float> master) {
  const offload::UnitPlan& planned = store.unit(unit);
  STRATA_CHECK(master.size() == own_elements(planned, rank));
  const auto shard = static_cast<std::size_t>(planned.shard_elements);
  std::vector<float> padded(shard, 0.0f);
  std::copy(master.begin(), master.end(), padded.begin());
  if (store.plan().dtypes.weights == Dtype::f32) {
    access.write(unit, StateKind::weights, 0, std::as_bytes(std::span(padded)));
  } else {
    std::vector<bf16> weight(shard);
    std::vector<std::int16_t> remainder(shard);
    for (std::size_t i = 0; i < shard; ++i) {
      const SplitMaster split = split_master(padded[i]);
      weight[i] = split.weight;
      remainder[i] = split.remainder;
    }
    access.write(unit, StateKind::weights, 0, std::as_bytes(std::span(weight)));
    access.write(unit, StateKind::remainder, 0, std::as_bytes(std::span(remainder)));
  }
  carry_moments(access, store, unit);
  access.flush();
  store.end_update(unit);
}

}  // namespace strata::engine
