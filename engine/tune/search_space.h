// SearchSpace: the options that a search for the fastest plan may choose, each with the values to
// try, made from what the user gave: an option that was given stays as it is.
//
// Always free, for they change no bit of what is computed: the tiers of each kind of state
// (--place), --activations, --recompute, --prefetch, --chunk-size, and how the machine's memory is
// divided, where no budget is given. Named by --vary, because they change how sums are ordered or
// how state is rounded: --micro-batch, --pass, --moments, --grad-dtype; of a run that goes on only
// what --allow-change names.
//
// Left out, for it never helps or cannot be told apart:
//   --place KIND=device   but for weights: unset, a kind fills the device first anyway, unless
//                         everything fits host memory
//   micro-batches         but powers of two and all sequences of a rank, where none is padded
//   passes                but all micro-batches, halves of them, quarters, ..., one
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options/options.h"
#include "engine/plan/memory_budgets.h"
#include "offload/comm/communicator.h"
#include "offload/tier.h"

namespace strata::engine {

// Where the plans are to run.
struct SearchPlace {
  comm::Topology topology;
  comm::Communicator::StagingBytes comm_staging;
  std::int64_t memory_bytes = 0;  // of a rank, for both tiers, where no budget is given
  RankDevice device;              // of this machine
  std::int64_t device_bytes = 0;  // of a device with memory of its own; memory_bytes is host's then
  std::int64_t storage_bytes = 0;  // NVMe of a rank; 0: none
  std::int64_t block_elements = offload::kBlockElements;
};

struct SearchSpace {
  Options base;                        // every option that is not chosen
  std::vector<MemoryBudgets> budgets;  // of a rank: ways to divide its memory
  std::vector<std::int64_t> micro_batches;
  std::vector<bool> recompute;
  std::vector<std::string> moments;
  std::vector<std::string> grad_dtypes;
  std::vector<std::string> placements;   // texts of --place
  std::vector<std::string> activations;  // tiers
  std::vector<int> prefetch;             // the one to begin with first
  std::vector<std::optional<std::int64_t>> chunk_sizes;

  // Micro-batches per pass; none: all of the step.
  std::vector<std::optional<std::int64_t>> passes(std::int64_t micro_batch) const;
  std::int64_t sequences = 0;  // of a rank and step
  bool varies_pass = false;
};

// What the search may choose of the options that change bits.
enum class Variation : std::uint8_t { as_options_say, none };

// Throws ConfigError.
SearchSpace make_search_space(const Options& options, const SearchPlace& place,
                              Variation variation);

// Where nothing is searched: what is given, and equal parts of memory that two tiers share.
MemoryBudgets even_budgets(const Options& options, const SearchPlace& place);

// Options with these budgets, as the command line says them.
Options with_budgets(Options options, const MemoryBudgets& budgets, const comm::Topology& topology);

// What --vary, --plans and --measure may be. Throws ConfigError.
void check_tune_options(const Options& options);

// The options of `chosen` that change what is computed and are not as in `base`: "micro-batch".
std::vector<std::string> changed_bits(const Options& base, const Options& chosen);

}  // namespace strata::engine
