// How an error reaches the user: one line on standard error, and the exit code.
#pragma once

#include <exception>
#include <string_view>

namespace strata::engine {

constexpr int kExitFailed = 1;       // the environment failed, or training cannot go on
constexpr int kExitUsage = 2;        // the options are wrong
constexpr int kExitSignalled = 128;  // plus the signal, as shells have it

int exit_code_of(const std::exception& error);

// Prints "strata: error: …" and flushes.
void print_error(std::string_view message);

}  // namespace strata::engine
