#include "engine/portable/hf_filler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/base/error.h"
#include "models/hf_tensors.h"

namespace strata::engine {

using offload::StateKind;

namespace {

float bound_of(Dtype weights) {
  return weights == Dtype::bf16 ? std::bit_cast<float>(kSplitMasterBoundBits)
                                : std::numeric_limits<float>::infinity();
}

}  // namespace

HfFiller::HfFiller(const std::string& folder, const store::Manifest& manifest, int rank)
    : parameters_(manifest),
      reader_(folder, parameters_.all()),
      weights_(manifest.dtypes.weights),
      rank_(rank) {}

void HfFiller::fill(offload::StateStore& store, StateAccess& access, AlignedSpan /*staging*/) {
  ShardBlock block(store, access);
  for (int unit = 0; unit < parameters_.units(); ++unit) {
    for (std::int64_t b = 0; b < parameters_.blocks_of_shard(unit); ++b) {
      block.begin(unit, b, parameters_.block_elements(unit, b));
      for (const BlockRange& range : parameters_.ranges(rank_, unit, b)) {
        fill_range(range,
                   block.masters().subspan(static_cast<std::size_t>(range.offset_elements),
                                           static_cast<std::size_t>(range.last - range.first)));
      }
      block.write_masters();
      for (const StateKind moment : {StateKind::moment1, StateKind::moment2}) {
        if (!block.has(moment)) continue;
        block.clear_moment(moment);
        block.write_moment(moment);
      }
    }
  }
  access.flush();
  if (!problems_.empty()) {
    throw_error<ConfigError>("--model {}: {}", reader_.folder(), fmt::join(problems_, "; "));
  }
}

void HfFiller::fill_range(const BlockRange& range, std::span<float> masters) {
  const PortableParameter& parameter = parameters_.all()[static_cast<std::size_t>(range.parameter)];
  reader_.read(parameter, range.first, masters);
  if (reader_.has_tied_head() && models::is_token_table(parameter.name)) {
    check_tied_head(parameter, range.first, masters);
  }
  check_values(parameter, range.first, masters);
}

// Goes on with zeros, to find what else there is.
void HfFiller::check_values(const PortableParameter& parameter, std::int64_t first,
                            std::span<float> masters) {
  const float bound = bound_of(weights_);
  for (std::size_t i = 0; i < masters.size(); ++i) {
    if (std::abs(masters[i]) < bound) continue;
    if (last_bad_ != parameter.name) {
      problems_.push_back(fmt::format(
          "{} is {}{}", reader_.place_of(parameter, first + static_cast<std::int64_t>(i)),
          masters[i], std::isfinite(masters[i]) ? ", which --precision bf16 cannot hold" : ""));
      last_bad_ = parameter.name;
    }
    masters[i] = 0;
  }
}

void HfFiller::check_tied_head(const PortableParameter& parameter, std::int64_t first,
                               std::span<const float> masters) {
  head_.resize(masters.size());
  reader_.read_tied_head(first, head_);
  const auto same_bits = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  const auto [value, other] = std::ranges::mismatch(masters, head_, same_bits);
  if (value == masters.end() || head_differs_) return;
  head_differs_ = true;
  problems_.push_back(fmt::format("'{}' differs from {}, which it is tied to by config.json",
                                  models::kHeadWeight,
                                  reader_.place_of(parameter, first + (value - masters.begin()))));
}

}  // namespace strata::engine
