// How an error reaches the user: one line on standard error, and the exit code.
#pragma once

#include <exception>
#include <string_view>

#include "kernels/base/error.h"

namespace strata::engine {

constexpr int kExitFailed = 1;       // the environment failed, or training cannot go on
constexpr int kExitUsage = 2;        // the options are wrong
constexpr int kExitSignalled = 128;  // plus the signal, as shells have it

// A failure that was printed where it was met.
class ReportedFailure : public Error {
 public:
  ReportedFailure(const std::exception& error, int exit_code)
      : Error(error.what()), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

int exit_code_of(const std::exception& error);

// Prints "strata: error: …" and flushes.
void print_error(std::string_view message);
// The same of an error of `rank`, or of the only one (-1), unless it was reported.
void report(const std::exception& error, int rank);

}  // namespace strata::engine
