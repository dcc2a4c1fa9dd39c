#include "io/stripe_map.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/base/error.h"

namespace strata::io {
namespace {

constexpr int kRoundStripesMax = 128;
constexpr std::int64_t kWeightMax = std::int64_t{1} << 50;

// How much longer than in exact proportion the slowest directory takes for its part of a round.
double slowdown(const std::vector<int>& counts, const std::vector<std::int64_t>& weights) {
  double total_weight = 0;
  double total = 0;
  double longest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (weights[i] == 0) continue;
    const auto weight = static_cast<double>(weights[i]);
    total_weight += weight;
    total += counts[i];
    longest = std::max(longest, counts[i] / weight);
  }
  return longest * total_weight / total;
}

// Stripes of each directory in a round: each next one goes to the directory that would have it
// written first, which makes the best round of each length; the best of these is taken.
std::vector<int> stripes_per_round(const std::vector<std::int64_t>& weights) {
  std::vector<int> counts(weights.size(), 0);
  std::vector<int> best;
  for (int length = 1; length <= kRoundStripesMax; ++length) {
    std::size_t next = weights.size();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      const bool first = next == weights.size();
      if (first || (counts[i] + 1) * weights[next] < (counts[next] + 1) * weights[i]) next = i;
    }
    ++counts[next];
    if (best.empty() || slowdown(counts, weights) < slowdown(best, weights)) best = counts;
  }
  return best;
}

// Smooth weighted round robin: credit grows by a directory's stripes per round, and the one with
// the most has its turn.
std::vector<StripePlace> order_of_round(const std::vector<int>& per_round) {
  int length = 0;
  for (const int count : per_round) length += count;
  std::vector<int> credit(per_round.size(), 0);
  std::vector<std::int64_t> dealt(per_round.size(), 0);
  std::vector<StripePlace> order;
  for (int turn = 0; turn < length; ++turn) {
    for (std::size_t i = 0; i < credit.size(); ++i) credit[i] += per_round[i];
    const auto next =
        static_cast<std::size_t>(std::max_element(credit.begin(), credit.end()) - credit.begin());
    credit[next] -= length;
    order.push_back({static_cast<int>(next), dealt[next]++});
  }
  return order;
}

}  // namespace

StripeMap::StripeMap(std::span<const StripeShare> rooms, std::int64_t stripes)
    : stripes_(stripes), shares_(rooms.begin(), rooms.end()) {
  std::vector<std::int64_t> weights;  // 0: has left
  for (const StripeShare& room : rooms) {
    STRATA_CHECK(room.weight > 0 && room.weight <= kWeightMax && room.stripes >= 0);
    weights.push_back(room.weight);
  }
  std::vector<std::int64_t> dealt(rooms.size(), 0);
  std::int64_t first_stripe = 0;
  while (first_stripe < stripes) {
    STRATA_CHECK(std::ranges::any_of(weights, [](std::int64_t weight) { return weight > 0; }),
                 "no room for {} stripes", stripes);
    Segment segment;
    segment.first_stripe = first_stripe;
    segment.per_round = stripes_per_round(weights);
    segment.round = order_of_round(segment.per_round);
    segment.dealt_before = dealt;
    const std::int64_t until_full = segment_stripes(segment, rooms);
    const std::int64_t length = std::min(until_full, stripes - first_stripe);
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      dealt[i] += dealt_in(segment, static_cast<int>(i), length);
    }
    const auto turn = static_cast<std::size_t>(until_full % std::ssize(segment.round));
    weights[static_cast<std::size_t>(segment.round[turn].directory)] = 0;
    first_stripe += length;
    if (length > 0) segments_.push_back(std::move(segment));
  }
  for (std::size_t i = 0; i < dealt.size(); ++i) shares_[i].stripes = dealt[i];
}

std::int64_t StripeMap::segment_stripes(const Segment& segment,
                                        std::span<const StripeShare> rooms) {
  std::int64_t stripes = std::numeric_limits<std::int64_t>::max();
  for (std::size_t turn = 0; turn < segment.round.size(); ++turn) {
    const StripePlace& place = segment.round[turn];
    const auto i = static_cast<std::size_t>(place.directory);
    const std::int64_t room = rooms[i].stripes - segment.dealt_before[i];
    // The round in which this turn of the directory finds it full.
    if (room % segment.per_round[i] != place.index) continue;
    const std::int64_t rounds = room / segment.per_round[i];
    const std::int64_t length = std::ssize(segment.round);
    if (rounds > std::numeric_limits<std::int64_t>::max() / length - 1) continue;
    stripes = std::min(stripes, rounds * length + static_cast<std::int64_t>(turn));
  }
  return stripes;
}

std::int64_t StripeMap::dealt_in(const Segment& segment, int directory, std::int64_t stripes) {
  const std::int64_t length = std::ssize(segment.round);
  std::int64_t dealt = stripes / length * segment.per_round[static_cast<std::size_t>(directory)];
  for (std::int64_t turn = 0; turn < stripes % length; ++turn) {
    dealt += segment.round[static_cast<std::size_t>(turn)].directory == directory ? 1 : 0;
  }
  return dealt;
}

StripePlace StripeMap::place(std::int64_t stripe) const {
  STRATA_CHECK(stripe >= 0 && stripe < stripes_, "stripe {} of {}", stripe, stripes_);
  const auto after = std::ranges::upper_bound(segments_, stripe, {}, &Segment::first_stripe);
  const Segment& segment = *std::prev(after);
  const std::int64_t position = stripe - segment.first_stripe;
  const std::int64_t length = std::ssize(segment.round);
  const StripePlace& place = segment.round[static_cast<std::size_t>(position % length)];
  const auto directory = static_cast<std::size_t>(place.directory);
  return {place.directory, segment.dealt_before[directory] +
                               position / length * segment.per_round[directory] + place.index};
}

}  // namespace strata::io
