#include "engine/run/error_report.h"

#include <fmt/format.h>

#include <cstdio>

namespace strata::engine {

void print_notice(std::string_view message) {
  fmt::print(stderr, "strata: {}\n", message);
  std::fflush(stderr);
}

void print_error(std::string_view message) { print_notice(fmt::format("error: {}", message)); }

void report(const std::exception& error, int rank) {
  if (dynamic_cast<const ReportedFailure*>(&error) != nullptr) return;
  print_error(rank < 0 ? error.what() : fmt::format("rank {}: {}", rank, error.what()));
}

}  // namespace strata::engine
