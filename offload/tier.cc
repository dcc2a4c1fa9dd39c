#include "offload/tier.h"

#include <algorithm>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::offload {

const char* name_of(Tier tier) {
  constexpr std::array<const char*, kTiers> kNames = {"device", "host", "nvme"};
  return kNames[static_cast<std::size_t>(tier)];
}

const char* name_of(StateKind kind) {
  constexpr std::array<const char*, kStateKinds> kNames = {"weights", "remainder", "moment1",
                                                           "moment2", "gradients"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool exists(StateKind kind, StateDtypes dtypes) {
  if (dtypes.content == StateContent::weights) return kind == StateKind::weights;
  switch (kind) {
    case StateKind::remainder:
      return dtypes.weights == Dtype::bf16;
    case StateKind::moment2:
      return dtypes.moment_count > 1;
    default:
      return true;
  }
}

std::int64_t element_bytes(StateKind kind, StateDtypes dtypes) {
  switch (kind) {
    case StateKind::weights:
      return bytes_of(dtypes.weights);
    case StateKind::remainder:
      return exists(kind, dtypes) ? 2 : 0;
    case StateKind::moment1:
    case StateKind::moment2:
      STRATA_CHECK(dtypes.moments != MomentFormat::int8);
      return exists(kind, dtypes) ? (dtypes.moments == MomentFormat::f32 ? 4 : 2) : 0;
    case StateKind::gradients:
      return exists(kind, dtypes) ? bytes_of(dtypes.gradients) : 0;
  }
  STRATA_CHECK(false);
}

namespace {

std::int64_t int8_block_bytes(std::int64_t elements) {
  const std::int64_t scales = ceil_div(elements, kScaleElements);
  return elements + round_up(scales * bytes_of(Dtype::f32), kPageBytes);
}

}  // namespace

std::int64_t state_bytes(StateKind kind, StateDtypes dtypes, std::int64_t elements,
                         std::int64_t block_elements) {
  if (!is_moment(kind) || dtypes.moments != MomentFormat::int8) {
    return elements * element_bytes(kind, dtypes);
  }
  if (!exists(kind, dtypes)) return 0;
  const std::int64_t rest = elements % block_elements;
  return elements / block_elements * int8_block_bytes(block_elements) +
         (rest > 0 ? int8_block_bytes(rest) : 0);
}

Int8Offsets int8_offsets(std::int64_t element, std::int64_t elements, std::int64_t block_elements) {
  const std::int64_t block = element / block_elements;
  const std::int64_t within = element % block_elements;
  const std::int64_t codes = std::min(block_elements, elements - block * block_elements);
  const std::int64_t begin = block * int8_block_bytes(block_elements);
  return {begin + within, begin + codes + within / kScaleElements * bytes_of(Dtype::f32)};
}

Tier parse_tier(std::string_view text) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    if (text == name_of(tier)) return tier;
  }
  throw_error<ConfigError>("'{}' is not a tier; use device, host or nvme", text);
}

Placement parse_placement(std::string_view text) {
  Placement placement;
  std::optional<Tier> rest;
  std::string_view kind;
  const auto set_once = [&](std::optional<Tier>& place, Tier tier) {
    if (place) throw_error<ConfigError>("'{}' is given twice", kind);
    place = tier;
  };
  const auto set = [&](StateKind state, Tier tier) {
    set_once(placement.states[static_cast<std::size_t>(state)], tier);
  };
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw_error<ConfigError>("'{}' is not KIND=TIER, as in weights=host,moments=nvme", part);
    }
    kind = part.substr(0, equals);
    const Tier tier = parse_tier(part.substr(equals + 1));
    if (kind == "weights") {
      set(StateKind::weights, tier);
    } else if (kind == "remainder") {
      set(StateKind::remainder, tier);
    } else if (kind == "moments") {
      set(StateKind::moment1, tier);
      set(StateKind::moment2, tier);
    } else if (kind == "gradients") {
      set(StateKind::gradients, tier);
    } else if (kind == "all") {
      set_once(rest, tier);
    } else if (kind == "activations") {
      throw ConfigError("activations are no state; --activations has their tier");
    } else {
      throw_error<ConfigError>(
          "'{}' is not a kind of state; use weights, remainder, moments, gradients or all", kind);
    }
  }
  for (std::optional<Tier>& place : placement.states) {
    if (!place) place = rest;
  }
  return placement;
}

}  // namespace strata::offload
