#include "cuda_sim/report.h"

#include <unistd.h>

#include <cstdlib>

#include "cuda_sim/block.h"

namespace strata::cuda_sim {
namespace {
constinit thread_local const char* working_on = "host code";
}  // namespace

Working::Working(const char* name) : outer_(std::exchange(working_on, name)) {}
Working::~Working() { working_on = outer_; }

std::string whereabouts() {
  return current_block != nullptr ? current_block->whereabouts() : working_on;
}

void report_text(const std::string& text) noexcept {
  const std::string line = fmt::format("cuda_sim: {}\n  in {}\n", text, whereabouts());
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

}  // namespace strata::cuda_sim
