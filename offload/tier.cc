#include "offload/tier.h"

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

std::int64_t element_bytes(StateKind kind, StateDtypes dtypes) {
  switch (kind) {
    case StateKind::weights:
      return bytes_of(dtypes.weights);
    case StateKind::remainder:
      return dtypes.weights == Dtype::bf16 ? 2 : 0;
    case StateKind::moment1:
    case StateKind::moment2:
      return 4;
    case StateKind::gradients:
      return bytes_of(dtypes.gradients);
  }
  STRATA_CHECK(false);
}

std::int64_t state_bytes(StateKind kind, StateDtypes dtypes, std::int64_t elements,
                         std::int64_t /*block_elements*/) {
  return elements * element_bytes(kind, dtypes);
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
