// Manifest: what a store holds and where: units, their parameters, and the extents of every kind of
// state. With it a store can be read without the plan or the model that made it.
//
// An extent is a range of the volume's data (io/volume.h), at whole blocks of one shard's state;
// it has one slot, or in a store of two slots two, if it is ever updated (docs/store-format.md). On
// disk the manifest is JSON: a store that is damaged can be read by people, and names and shapes
// need no format of their own.
//
// Decoding trusts nothing: every number is checked against bounds and against the others.
// Thread contract: plain data; the functions may run on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/plan.h"

namespace strata::store {

// A tensor, or rows of one, within its unit.
struct Parameter {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t first_row = 0;        // in the whole tensor
  std::int64_t offset_elements = 0;  // in the unsharded unit
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

// One kind of state of this rank's shard.
struct Extent {
  std::int64_t bytes = 0;                  // of one slot
  std::vector<std::int64_t> slot_offsets;  // one, or two
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct StoredUnit {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t shard_elements = 0;  // of each rank, padded
  std::vector<Parameter> parameters;
  std::array<std::optional<Extent>, offload::kStateKinds> extents;  // absent: not in the store
  friend bool operator==(const StoredUnit&, const StoredUnit&) = default;
};

struct Manifest {
  offload::StateDtypes dtypes;
  std::int64_t block_elements = 0;
  int slots = 1;  // of shards' state; gradients, activations and frozen units have one
  std::int64_t data_bytes = 0;
  std::vector<StoredUnit> units;

  // Blocks of all extents but gradients': what a commit's table has checksums for.
  std::int64_t committed_blocks() const;
};

// `parameters`: of each unit of the plan.
Manifest make_manifest(const offload::Plan& plan, std::vector<std::vector<Parameter>> parameters);

std::string encode(const Manifest& manifest);
// Throws FormatError.
Manifest decode_manifest(std::string_view text);

}  // namespace strata::store
