#include "engine/run/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "engine/run/error_report.h"
#include "engine/run/terminal.h"

namespace strata::engine {

StatusLine::StatusLine(const comm::Communicator& comm)
    : speaks_(comm.rank() == 0),
      style_(progress_style(STDERR_FILENO, /*json=*/false, comm.world_size())) {}

StatusLine::~StatusLine() {
  if (line_is_open_) fmt::print(stderr, "{}", kStartOver);
}

void StatusLine::show(std::string_view text) {
  if (!speaks_) return;
  if (style_ == ProgressStyle::terminal) {
    const std::string line = fmt::format("strata: {}", text);
    fmt::print(stderr, "{}{}", kStartOver, line.substr(0, terminal_columns(STDERR_FILENO)));
    line_is_open_ = true;
  } else if (is_due()) {
    print_notice(text);
  } else {
    return;
  }
  std::fflush(stderr);
  shown_ = Clock::now();
}

bool StatusLine::is_due() const {
  const auto stood = Clock::now() - shown_;
  return speaks_ &&
         (style_ == ProgressStyle::terminal ? stood >= kTerminalInterval : stood >= kPlainInterval);
}

}  // namespace strata::engine
