// PortableIndex: strata.json, what a portable checkpoint holds: of which step of which run, its
// files, and for each tensor the checksums of the ranges it was written in. A folder without one is
// no portable checkpoint: it is written last. docs/checkpoints.md has the format.
//
// Decoding trusts nothing. Throws FormatError.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/portable/layout.h"
#include "kernels/base/dtype.h"
#include "offload/store/superblock.h"

namespace strata::engine {

inline constexpr const char* kPortableIndexFile = "strata.json";
inline constexpr std::int64_t kPortableVersion = 1;

// The run and the moment that a portable checkpoint is of.
struct PortableOrigin {
  std::int64_t step = 0;
  store::Snapshot snapshot;
  int world_size = 1;
  nlohmann::json options;     // as options.json has them; of a training state only
  nlohmann::json arithmetic;  // as arithmetic.json has it; of a training state only
  std::string run;            // whose it is: run_name(), or of weights alone run_mark()
};

// Elements from the end of the range before (or 0) to `last`, in our order.
struct PortableRange {
  std::int64_t last = 0;
  std::uint64_t checksum = 0;  // XXH3 of the elements' bytes, seed 0
};

struct PortableIndexFile {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t header_bytes = 0;
  std::uint64_t header_checksum = 0;
};

struct PortableIndexTensor {
  std::int64_t rows = 0;  // in our order
  std::int64_t columns = 0;
  bool transposed = false;
  std::vector<PortableRange> ranges;
};

struct PortableIndex {
  PortableOrigin origin;
  PortableContent content = PortableContent::weights;
  MomentFormat moments = MomentFormat::f32;
  int moment_count = 2;
  std::vector<PortableIndexFile> files;
  std::map<std::string, PortableIndexTensor> tensors;
};

std::string encode(const PortableIndex& index);
PortableIndex decode_portable_index(std::string_view text);

// Of a folder; names it. Throws ConfigError for one that has no strata.json, IoError, FormatError.
PortableIndex read_portable_index(const std::string& folder);

// Throws ConfigError, naming --resume-from, for weights alone.
void require_training_state(const PortableIndex& index, const std::string& folder);

// Of bytes of a portable checkpoint.
std::uint64_t portable_checksum(const std::byte* data, std::int64_t bytes);

}  // namespace strata::engine
