#include "engine/checkpoint/verified_blocks.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kBlocksMax = 32;

std::string place_of(const StoredBlock& b) {
  return fmt::format("{} in {}", b.reader->describe(b.unit, b.kind, b.block),
                     b.reader->locate(*b.table, b.unit, b.kind, b.block));
}

}  // namespace

VerifiedBlocks::VerifiedBlocks(AlignedSpan staging, std::int64_t block_bytes, WorkerSet& workers,
                               const FailureLatch* failure)
    : workers_(workers), failure_(failure) {
  const std::int64_t each = std::min(staging.bytes() / block_bytes, kBlocksMax) / 2;
  STRATA_CHECK(each > 0, "{} bytes for two blocks of {}", staging.bytes(), block_bytes);
  std::int64_t place = 0;
  for (Batch& batch : batches_) {
    batch.flights = std::vector<Flight>(static_cast<std::size_t>(each));
    for (Flight& flight : batch.flights) {
      flight.memory = staging.sub(place, block_bytes);
      place += block_bytes;
    }
  }
}

void VerifiedBlocks::read(std::span<const StoredBlock> blocks, const Consume& consume) {
  try {
    std::size_t next = start(batches_[0], blocks, 0);
    for (std::size_t now = 0; batches_[now].used > 0; now = 1 - now) {
      if (failure_ != nullptr) failure_->check();
      next = start(batches_[1 - now], blocks, next);
      finish(batches_[now], blocks, consume);
    }
  } catch (...) {
    drop_flights();
    throw;
  }
}

void VerifiedBlocks::drop_flights() noexcept {
  for (Batch& batch : batches_) {
    for (Flight& flight : batch.flights) {
      try {
        flight.group.wait();
      } catch (const IoError&) {  // what is thrown already came first
      }
    }
  }
}

std::size_t VerifiedBlocks::start(Batch& batch, std::span<const StoredBlock> blocks,
                                  std::size_t next) {
  batch.used = std::min(batch.flights.size(), blocks.size() - next);
  for (std::size_t i = 0; i < batch.used; ++i, ++next) {
    Flight& flight = batch.flights[i];
    const StoredBlock& b = blocks[next];
    flight.index = next;
    flight.bytes = b.reader->start(*b.table, b.unit, b.kind, b.block, flight.memory, flight.group);
  }
  return next;
}

void VerifiedBlocks::finish(Batch& batch, std::span<const StoredBlock> blocks,
                            const Consume& consume) {
  const auto flights = std::span(batch.flights).first(batch.used);
  for (Flight& flight : flights) {
    try {
      flight.group.wait();
    } catch (const IoError& error) {
      throw_error<DamagedCommit>("{}: {}", place_of(blocks[flight.index]), error.what());
    }
  }
  workers_.parallel_for(std::ssize(flights), [&](std::int64_t tile, int) {
    Flight& flight = flights[static_cast<std::size_t>(tile)];
    const StoredBlock& b = blocks[flight.index];
    flight.intact =
        b.reader->is_intact(*b.table, b.unit, b.kind, b.block, flight.memory.sub(0, flight.bytes));
  });
  for (const Flight& flight : flights) {
    if (!flight.intact) {
      throw_error<DamagedCommit>("{}: {} bytes are not those that were written there",
                                 place_of(blocks[flight.index]), flight.bytes);
    }
    consume(flight.index, {flight.memory.data(), static_cast<std::size_t>(flight.bytes)});
  }
}

}  // namespace strata::engine
