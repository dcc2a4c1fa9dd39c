// HfFiller: a trainer's state at the begin of a fine-tuning: masters from a Hugging Face model
// folder (hf_reader.h), zero moments, zero padding. Any number of ranks, any tiers; each rank
// reads the ranges that its shards have elements of, a block at a time.
#pragma once

#include <string>
#include <vector>

#include "engine/portable/hf_reader.h"
#include "engine/portable/parameters.h"
#include "engine/portable/shard_block.h"
#include "engine/step/state_filler.h"
#include "offload/store/manifest.h"

namespace strata::engine {

class HfFiller final : public StateFiller {
 public:
  // `manifest`: of the run that begins; not kept. Throws what HfReader throws.
  HfFiller(const std::string& folder, const store::Manifest& manifest, int rank);

  const HfReader& reader() const { return reader_; }

  // Throws IoError, and once all is read ConfigError naming each tensor of this rank that has
  // values which cannot be trained, with the first: not finite, beyond what bf16 training holds
  // (kSplitMasterBoundBits), or a stored head that is not the token table though it is tied to it.
  void fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) override;

 private:
  void fill_range(const BlockRange& range, std::span<float> masters);
  void check_values(const PortableParameter& parameter, std::int64_t first,
                    std::span<float> masters);
  void check_tied_head(const PortableParameter& parameter, std::int64_t first,
                       std::span<const float> masters);

  PortableParameters parameters_;
  HfReader reader_;
  Dtype weights_;
  int rank_;
  std::string last_bad_;  // the parameter that was named last
  bool head_differs_ = false;
  std::vector<std::string> problems_;
  std::vector<float> head_;  // of the range at hand
};

}  // namespace strata::engine
