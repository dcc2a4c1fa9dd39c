// The status that the program exits with, and errors that choose theirs.
#pragma once

#include <exception>
#include <string>

#include "kernels/base/error.h"

namespace strata::engine {

constexpr int kExitFailed = 1;       // the environment failed, or training cannot go on
constexpr int kExitUsage = 2;        // the options are wrong
constexpr int kExitResumable = 75;   // stopped, to be resumed (EX_TEMPFAIL of sysexits.h)
constexpr int kExitSignalled = 128;  // plus the signal, as shells have it

class ExitError : public Error {
 public:
  ExitError(const std::string& message, int exit_code) : Error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

int exit_code_of(const std::exception& error);

}  // namespace strata::engine
