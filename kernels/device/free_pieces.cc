#include "kernels/device/free_pieces.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata {

FreePieces::FreePieces(std::int64_t bytes) {
  if (bytes > 0) free_.push_back({0, bytes});
}

std::int64_t FreePieces::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto piece =
      std::ranges::find_if(free_, [&](const Piece& candidate) { return candidate.bytes >= bytes; });
  if (piece == free_.end()) {
    throw_error<OutOfBudget>(
        "device memory: {} are free, but not in one piece; raise --device-memory",
        format_bytes(bytes));
  }
  const std::int64_t offset_bytes = piece->offset_bytes;
  piece->offset_bytes += bytes;
  piece->bytes -= bytes;
  if (piece->bytes == 0) free_.erase(piece);
  return offset_bytes;
}

void FreePieces::give_back(std::int64_t offset_bytes, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto after = std::ranges::upper_bound(free_, offset_bytes, {}, &Piece::offset_bytes);
  auto piece = free_.insert(after, {offset_bytes, bytes});
  if (const auto next = std::next(piece);
      next != free_.end() && piece->offset_bytes + piece->bytes == next->offset_bytes) {
    piece->bytes += next->bytes;
    free_.erase(next);
  }
  if (piece == free_.begin()) return;
  if (const auto previous = std::prev(piece);
      previous->offset_bytes + previous->bytes == piece->offset_bytes) {
    previous->bytes += piece->bytes;
    free_.erase(piece);
  }
}

}  // namespace strata
