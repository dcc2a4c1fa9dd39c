// PortableParameters: the whole parameters of a model behind the units and shards that a store
// keeps them in, so that what is copied to or from a portable checkpoint is named by parameter and
// element and no number of ranks shows. Pure.
//
// Of moments in int8 the scales are numbered through each parameter: one for every group of 256
// elements of the unit that the parameter has a part of (docs/checkpoints.md). A group that two
// parameters share has a scale in both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/store/manifest.h"

namespace strata::engine {

struct PortableParameter {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t scales = 0;
  bool has_moments = false;  // in the store; not of a unit that is frozen whole
  std::int64_t elements() const { return rows * columns; }
};

// A part of a parameter within one block of a shard.
struct BlockRange {
  int parameter = 0;
  std::int64_t first = 0;  // of the parameter's elements, row-major
  std::int64_t last = 0;
  std::int64_t offset_elements = 0;  // of `first`, from the block's begin
  std::int64_t first_scale = 0;      // of the parameter's
  std::int64_t last_scale = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

class PortableParameters {
 public:
  // Of any rank's manifest; not kept.
  explicit PortableParameters(const store::Manifest& manifest);

  const std::vector<PortableParameter>& all() const { return all_; }

  int units() const { return static_cast<int>(units_.size()); }
  std::int64_t blocks_of_shard(int unit) const;
  std::int64_t block_elements(int unit, std::int64_t block) const;
  // Of a block of a rank's shard; none where it is padding.
  std::vector<BlockRange> ranges(int rank, int unit, std::int64_t block) const;

 private:
  struct Piece {  // a parameter, or rows of one, in a unit
    int parameter;
    std::int64_t first;            // of the parameter's elements
    std::int64_t offset_elements;  // in the unit
    std::int64_t elements;
    std::int64_t first_scale;
  };
  struct Unit {
    std::int64_t shard_elements;
    std::vector<Piece> pieces;
  };
  std::int64_t block_elements_max_;
  std::vector<PortableParameter> all_;
  std::vector<Unit> units_;
};

}  // namespace strata::engine
