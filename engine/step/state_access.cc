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

constexpr std::int64_t kPieceElements = 256 * 1024;
constexpr std::int64_t kTileElements = 16 * 1024;

// What one piece of a shard is initialised to.
struct Piece {
  std::vector<float> master;
  std::vector<bf16> weight;
  std::vector<std::int16_t> remainder;
  std::vector<float> zeros;
};

}  // namespace

StateAccess::StateAccess(offload::StateStore& store, Device& device, AlignedSpan scratch)
    : store_(store), copies_(device.make_stream("state copy")) {
  const auto count = static_cast<std::int64_t>(parts_.size());
  const std::int64_t bytes = scratch.bytes() / count / kPageBytes * kPageBytes;
  for (std::int64_t i = 0; i < count; ++i) {
    parts_[static_cast<std::size_t>(i)].memory = scratch.sub(i * bytes, bytes);
  }
}

StateAccess::Part& StateAccess::take_part() {
  Part& part = parts_[taken_++ % parts_.size()];
  part.writes.wait();
  STRATA_CHECK(part.memory.bytes() > 0, "no scratch memory for state outside host memory");
  return part;
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
    const auto bytes =
        std::min<std::int64_t>(static_cast<std::int64_t>(destination.size()), part.memory.bytes());
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
    const auto bytes =
        std::min<std::int64_t>(static_cast<std::int64_t>(source.size()), part.memory.bytes());
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
  const bool split = store.plan().dtypes.weights == Dtype::bf16;
  Piece piece{std::vector<float>(kPieceElements), std::vector<bf16>(kPieceElements),
              std::vector<std::int16_t>(kPieceElements), std::vector<float>(kPieceElements, 0.0f)};
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    const std::int64_t shard = store.unit(u).shard_elements;
    for (std::int64_t first = 0; first < shard; first += kPieceElements) {
      const std::int64_t count = std::min(kPieceElements, shard - first);
      workers.parallel_for(ceil_div(count, kTileElements), [&](std::int64_t tile, int) {
        const std::int64_t from = tile * kTileElements;
        const std::int64_t size = std::min(kTileElements, count - from);
        models::initial_values(units[static_cast<std::size_t>(u)], seed,
                               rank * shard + first + from,
                               {piece.master.data() + from, static_cast<std::size_t>(size)});
        for (std::int64_t i = from; i < from + size; ++i) {
          const auto index = static_cast<std::size_t>(i);
          const SplitMaster master = split_master(piece.master[index]);
          piece.weight[index] = master.weight;
          piece.remainder[index] = master.remainder;
        }
      });
      const auto put = [&](StateKind kind, const auto& values) {
        const auto each = static_cast<std::int64_t>(sizeof(values[0]));
        access.write(u, kind, first * each,
                     std::as_bytes(std::span(values).first(static_cast<std::size_t>(count))));
      };
      if (split) {
        put(StateKind::weights, piece.weight);
        put(StateKind::remainder, piece.remainder);
      } else {
        put(StateKind::weights, piece.master);
      }
      put(StateKind::moment1, piece.zeros);
      put(StateKind::moment2, piece.zeros);
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

void write_master(StateAccess& access, const offload::StateStore& store, int unit, int rank,
                  std::span<const float> master) {
  const offload::UnitPlan& planned = store.unit(unit);
  STRATA_CHECK(master.size() == own_elements(planned, rank));
  const auto shard = static_cast<std::size_t>(planned.shard_elements);
  std::vector<float> padded(shard, 0.0f);
  std::copy(master.begin(), master.end(), padded.begin());
  if (store.plan().dtypes.weights == Dtype::f32) {
    access.write(unit, StateKind::weights, 0, std::as_bytes(std::span(padded)));
    access.flush();
    return;
  }
  std::vector<bf16> weight(shard);
  std::vector<std::int16_t> remainder(shard);
  for (std::size_t i = 0; i < shard; ++i) {
    const SplitMaster split = split_master(padded[i]);
    weight[i] = split.weight;
    remainder[i] = split.remainder;
  }
  access.write(unit, StateKind::weights, 0, std::as_bytes(std::span(weight)));
  access.write(unit, StateKind::remainder, 0, std::as_bytes(std::span(remainder)));
  access.flush();
}

}  // namespace strata::engine
