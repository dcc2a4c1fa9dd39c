#include "engine/run/error_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "engine/run/interrupt_watch.h"
#include "kernels/base/error.h"

namespace strata::engine {

int exit_code_of(const std::exception& error) {
  if (const auto* reported = dynamic_cast<const ReportedFailure*>(&error)) {
    return reported->exit_code();
  }
  if (const auto* interrupted = dynamic_cast<const Interrupted*>(&error)) {
    return kExitSignalled + interrupted->signal();
  }
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? kExitUsage : kExitFailed;
}

void print_error(std::string_view message) {
  fmt::print(stderr, "strata: error: {}\n", message);
  std::fflush(stderr);
}

void report(const std::exception& error, int rank) {
  if (dynamic_cast<const ReportedFailure*>(&error) != nullptr) return;
  print_error(rank < 0 ? error.what() : fmt::format("rank {}: {}", rank, error.what()));
}

}  // namespace strata::engine
