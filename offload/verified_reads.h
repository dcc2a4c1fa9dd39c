// VerifiedReads: reads of a StateStore whose bytes are checked, block by block, when they are
// waited for. Like an IoGroup it belongs to one waiting thread at a time.
//
//   idle ──StateStore::read(_record)──▶ pending ──wait(): arrived, then checked──▶ idle
#pragma once

#include <array>

#include "io/storage.h"
#include "offload/checksum_table.h"

namespace strata::offload {

class StateStore;

class VerifiedReads {
 public:
  // Reads between two waits; more is a programmer error.
  static constexpr int kReadsMax = 16;

  // For StateStore, which is about to start the read: in the group that is given.
  io::IoGroup& add(const StateStore& store, const ExtentRange& range);

  // Blocks until everything has arrived, then checks it on the workers. Throws the first failure,
  // an IoError; for a block whose checksum differs it names state, elements, file and offset.
  void wait();

 private:
  const StateStore* store_ = nullptr;  // of the reads under way
  std::array<ExtentRange, kReadsMax> reads_;
  int count_ = 0;
  io::IoGroup transfers_;  // last: it waits for what is in flight
};

}  // namespace strata::offload
