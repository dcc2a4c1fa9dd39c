// Tiers, kinds of state, and which kind lives where.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/base/dtype.h"

namespace strata::offload {

enum class Tier : std::uint8_t { device, host, nvme };
inline constexpr int kTiers = 3;
const char* name_of(Tier tier);

// What a shard consists of. `weights` is the working weight; `remainder` the lower half of the
// split master (absent in f32); `gradients` the accumulated gradient between backward and update.
enum class StateKind : std::uint8_t { weights, remainder, moment1, moment2, gradients };
inline constexpr int kStateKinds = 5;
const char* name_of(StateKind kind);

// Dtypes that decide how many bytes an element of each kind takes.
struct StateDtypes {
  Dtype weights = Dtype::bf16;   // bf16: split master; f32: the weight is the master
  Dtype gradients = Dtype::f32;  // of final gradients
};
// Bytes per element; 0 where the kind does not exist.
std::int64_t element_bytes(StateKind kind, StateDtypes dtypes);

// Where the user wants each kind; empty: the plan decides.
struct Placement {
  std::array<std::optional<Tier>, kStateKinds> states;
  std::optional<Tier> activations;
};

// "weights=host,moments=nvme,remainder=nvme,gradients=host"; "moments" is both moments, "all" every
// state that is not named. Throws ConfigError naming the part that is not understood or comes
// twice.
Placement parse_placement(std::string_view text);
Tier parse_tier(std::string_view text);

}  // namespace strata::offload
