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
// What lasts from one step to the next.
inline constexpr std::array kLastingKinds = {StateKind::weights, StateKind::remainder,
                                             StateKind::moment1, StateKind::moment2};
constexpr bool is_moment(StateKind kind) {
  return kind == StateKind::moment1 || kind == StateKind::moment2;
}

// training: all of the state. weights: working weights alone, of a model that is only read.
enum class StateContent : std::uint8_t { training, weights };

// What decides how many bytes each kind takes.
struct StateDtypes {
  Dtype weights = Dtype::bf16;   // bf16: split master; f32: the weight is the master
  Dtype gradients = Dtype::f32;  // of final gradients
  MomentFormat moments = MomentFormat::f32;
  int moment_count = 2;  // 1: the optimizer has no second moment (Lion)
  StateContent content = StateContent::training;
};
// Whether there is such a state at all.
bool exists(StateKind kind, StateDtypes dtypes);
// Bytes per element; 0 where the kind does not exist. Not for moments in int8, whose scales take a
// fraction of a byte: see state_bytes().
std::int64_t element_bytes(StateKind kind, StateDtypes dtypes);

// The elements of one state that one checksum covers, and of which transfers are made (whole
// blocks, or up to the end of the shard). Large enough that a block is a whole number of pages in
// every format.
inline constexpr std::int64_t kBlockElements = 1 << 18;

// Bytes of `elements` consecutive elements of one kind, from a block's start on; a whole number of
// pages when `elements` is a multiple of 4,096. In int8 each block is its codes, then its scales
// (f32, one per 256 elements), padded to a page. Also the offset of element `elements` where that
// starts a block. `block_elements`: kBlockElements, or in tests less, a multiple of 4,096.
std::int64_t state_bytes(StateKind kind, StateDtypes dtypes, std::int64_t elements,
                         std::int64_t block_elements = kBlockElements);

// Bytes from the start of `elements` consecutive elements in int8, as above, to the code and to the
// scale of one of them.
struct Int8Offsets {
  std::int64_t code_bytes;
  std::int64_t scale_bytes;
};
Int8Offsets int8_offsets(std::int64_t element, std::int64_t elements, std::int64_t block_elements);

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
