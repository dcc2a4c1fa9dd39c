// What the simulated device finds wrong with the code that uses it ends the process with one report
// on stderr that says what, and where: which kernel, block and thread, or which work of a stream.
// Real hardware would go on with undefined results, or hang.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace strata::cuda_sim {

[[noreturn]] void report_text(const std::string& text) noexcept;

template <typename... Args>
[[noreturn, gnu::cold]] void report(fmt::format_string<Args...> format, Args&&... args) {
  report_text(fmt::format(format, std::forward<Args>(args)...));
}

// What this thread is doing, for reports: "host code", "copy", "kernel launched at gelu.cu:35,
// block (3, 0, 0), thread 17".
std::string whereabouts();

// Names the work of this thread while it lives; `name` is a literal.
class Working {
 public:
  explicit Working(const char* name);
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  const char* outer_;
};

}  // namespace strata::cuda_sim
