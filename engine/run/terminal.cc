#include "engine/run/terminal.h"

#include <sys/ioctl.h>

#include <limits>

namespace strata::engine {

std::size_t terminal_columns(int descriptor) {
  winsize window{};
  if (::ioctl(descriptor, TIOCGWINSZ, &window) != 0 || window.ws_col < 2) {
    return std::numeric_limits<std::size_t>::max();
  }
  return window.ws_col - 1U;
}

}  // namespace strata::engine
