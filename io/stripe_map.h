// StripeMap: which directory of a volume holds which stripe, and where in its file.
//
// Stripes are dealt in rounds. In a round every directory gets a number of stripes in proportion to
// its weight (a round is short, so the proportion is a close one, not an exact one), spread over
// the round, so that any run of consecutive stripes is spread in proportion too. When it is a
// directory's turn and it is full it leaves, and new rounds begin with those that are left.
//
// A pure function of weights, rooms and the number of stripes, and part of the format of a store:
// dealing again with each directory's room as the stripes it holds gives the same places. No I/O,
// immutable, thread-safe; a look-up takes O(log directories).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::io {

// What is dealt to a directory.
struct StripeShare {
  std::int64_t weight = 0;   // bytes per second, or anything in proportion to it: 1 to 2^50
  std::int64_t stripes = 0;  // for which it has room; of a map that was dealt: that it holds
};

struct StripePlace {
  int directory = 0;
  std::int64_t index = 0;  // among the stripes of the directory
  friend bool operator==(const StripePlace&, const StripePlace&) = default;
};

class StripeMap {
 public:
  // There is room for `stripes` in all.
  StripeMap(std::span<const StripeShare> rooms, std::int64_t stripes);

  StripePlace place(std::int64_t stripe) const;
  std::int64_t stripes() const { return stripes_; }
  const std::vector<StripeShare>& shares() const { return shares_; }

 private:
  // Rounds of one kind, up to the stripe at which a directory leaves.
  struct Segment {
    std::int64_t first_stripe = 0;
    std::vector<StripePlace> round;          // index: within the directory's stripes of the round
    std::vector<int> per_round;              // stripes of each directory
    std::vector<std::int64_t> dealt_before;  // stripes of each directory before this segment
  };

  // Stripes that can be dealt in such rounds until it is a full directory's turn.
  static std::int64_t segment_stripes(const Segment& segment, std::span<const StripeShare> rooms);
  // Of each directory, in the first `stripes` of the segment.
  static std::int64_t dealt_in(const Segment& segment, int directory, std::int64_t stripes);

  std::int64_t stripes_;
  std::vector<Segment> segments_;
  std::vector<StripeShare> shares_;
};

}  // namespace strata::io
