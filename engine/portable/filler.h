// PortableFiller: a trainer's state from a portable checkpoint, by any number of ranks, into any
// tiers. Each rank reads the ranges that its shards have elements of, a block at a time.
//
// The masters decide: working weights are made from them, so that the precision of the run that
// wrote them may differ. Padding is zero. Moments come in the format they are in, and are zero
// where the checkpoint has none because the parameter was frozen.
//
// Thread contract: one thread. Not collective: no rank waits for another.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/portable/parameters.h"
#include "engine/portable/reader.h"
#include "engine/portable/shard_block.h"
#include "engine/step/state_filler.h"
#include "offload/store/manifest.h"

namespace strata::engine {

class PortableFiller final : public StateFiller {
 public:
  // `manifest`: of the run that begins, on any tiers; not kept. Throws ConfigError naming what the
  // checkpoint does not have as the run needs it (a parameter and its shape, the moments), and what
  // PortableReader throws.
  PortableFiller(const std::string& folder, const store::Manifest& manifest, int rank);

  const PortableOrigin& origin() const { return reader_.index().origin; }

  // Throws IoError for a damaged range, ConfigError for masters that bf16 training cannot hold.
  void fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) override;

 private:
  void check_format() const;
  void check_tensor(const PortableParameter& parameter, PortableState state) const;
  void fill_masters(ShardBlock& block, const std::string& unit);
  void fill_moment(ShardBlock& block, offload::StateKind kind);
  // Of each range of the block, the elements of a state's tensor into `values`.
  void read_ranges(PortableState state, std::span<std::byte> values);

  PortableReader reader_;
  PortableParameters parameters_;
  offload::StateDtypes dtypes_;  // of the run
  int rank_;
  std::vector<BlockRange> ranges_;  // of the block at hand
};

}  // namespace strata::engine
