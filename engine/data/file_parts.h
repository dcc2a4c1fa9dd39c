// A window over several files that follow each other, cut into the parts that lie in one file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::engine {

// visit(file, first in the file, the part of `window`) for every part. ends[f]: elements of the
// files up to and including f. The window lies inside them.
template <typename T, typename Visit>
void for_each_part(std::span<const std::int64_t> ends, std::int64_t first, std::span<T> window,
                   Visit&& visit) {
  auto file =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), first) - ends.begin());
  for (; !window.empty(); ++file) {
    const std::int64_t start = file == 0 ? 0 : ends[file - 1];
    const std::size_t count = std::min(window.size(), static_cast<std::size_t>(ends[file] - first));
    visit(file, first - start, window.first(count));
    window = window.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

}  // namespace strata::engine
