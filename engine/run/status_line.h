// StatusLine: what a command that takes long is doing, for the person at its standard error. On a
// terminal it is one line that is overwritten, and erased in the end; elsewhere a plain line, at
// most every kPlainInterval. Rank 0 shows it. What a run does is told by Progress.
#pragma once

#include <chrono>
#include <string_view>

#include "engine/run/progress.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class StatusLine {
 public:
  explicit StatusLine(const comm::Communicator& comm);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(std::string_view text);
  // For what changes often: whether the last text has stood for a while.
  bool is_due() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTerminalInterval{100};
  static constexpr std::chrono::seconds kPlainInterval{5};

  const bool speaks_;
  const ProgressStyle style_;
  bool line_is_open_ = false;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace strata::engine
