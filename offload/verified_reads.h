// VerifiedReads: reads of a StateStore whose bytes are checked, block by block, when they are
// waited for. Like an IoGroup it belongs to one waiting thread at a time.
#pragma once

#include <array>
#include <cstdint>

#include "io/storage.h"

namespace strata::offload {

class StateStore;

class VerifiedReads {
 public:
  // Reads between two waits; more is a programmer error.
  static constexpr int kReadsMax = 16;

  // Blocks until everything has arrived, then checks it on the workers. Throws the first failure,
  // an IoError; for a block whose checksum differs it names state, elements, file and offset.
  void wait();

 private:
  friend class StateStore;
  struct Read {
    int extent = 0;
    std::int64_t first_byte = 0;  // of the extent
    AlignedSpan destination;
  };
  const StateStore* store_ = nullptr;  // of the reads under way
  io::IoGroup transfers_;
  std::array<Read, kReadsMax> reads_;
  int count_ = 0;
};

}  // namespace strata::offload
