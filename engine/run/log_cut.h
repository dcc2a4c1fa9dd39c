// A run that goes on from a commit has lines in its log of steps that come again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace strata::engine {

// Whether the line of `step` in the log at `path` has no validation loss: a run that is stopped
// does not wait for one. Throws IoError.
bool lacks_validation(const std::string& path, std::int64_t step);

// Keeps the lines of steps up to `step`, the one before training (step 0) among them, of the log at
// `path`, if there is one; below 0, none. A last line that the end of the run tore goes too.
// `validation_loss`: goes into the line of `step` where that has none.
// Durably, and whole: after a crash the old log is there or the new. Throws FormatError naming the
// line that is none of a log, IoError.
void cut_log(const std::string& path, std::int64_t step,
             std::optional<double> validation_loss = std::nullopt);

}  // namespace strata::engine
