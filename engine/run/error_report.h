// How errors, and what is said from other threads than the loop's, reach the user: one line on
// standard error.
#pragma once

#include <exception>
#include <string_view>

#include "engine/options/exit_code.h"

namespace strata::engine {

// A failure that was printed where it was met.
class ReportedFailure final : public ExitError {
 public:
  ReportedFailure(const std::exception& error, int exit_code)
      : ExitError(error.what(), exit_code) {}
};

// Prints "strata: …" at once. Thread-safe.
void print_notice(std::string_view message);
// Prints "strata: error: …" and flushes.
void print_error(std::string_view message);
// The same of an error of `rank`, or of the only one (-1), unless it was reported.
void report(const std::exception& error, int rank);

}  // namespace strata::engine
