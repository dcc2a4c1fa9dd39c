// Names of files in the folder of a run that are written above and read below (docs/checkpoints.md
// lists them all): run_options.h and store_pointer.h have those of their own files.
#pragma once

namespace strata::engine {

inline constexpr const char* kArithmeticFile = "arithmetic.json";
inline constexpr const char* kDataFile = "data.json";
inline constexpr const char* kLogFile = "log.jsonl";

}  // namespace strata::engine
