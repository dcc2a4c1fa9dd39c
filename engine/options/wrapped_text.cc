#include "engine/options/wrapped_text.h"

#include <algorithm>

namespace strata::engine {

void append_wrapped(std::string& out, std::string_view text, std::size_t indent,
                    std::size_t width) {
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

}  // namespace strata::engine
