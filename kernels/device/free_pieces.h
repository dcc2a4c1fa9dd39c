// FreePieces: which parts of an arena are free. First fit: everything is allocated once, at start,
// so holes are rare. Freed neighbours merge. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace strata {

class FreePieces {
 public:
  explicit FreePieces(std::int64_t bytes);

  // The offset of a piece. Throws OutOfBudget if nothing that is free is as long.
  std::int64_t take(std::int64_t bytes);
  void give_back(std::int64_t offset_bytes, std::int64_t bytes) noexcept;

 private:
  struct Piece {
    std::int64_t offset_bytes;
    std::int64_t bytes;
  };
  std::mutex mutex_;
  std::vector<Piece> free_;  // sorted by offset, merged
};

}  // namespace strata
