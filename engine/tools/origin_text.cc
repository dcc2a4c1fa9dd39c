#include "engine/tools/origin_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace strata::engine {

std::string age_text(std::int64_t then_s) {
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now).count() - then_s;
  if (seconds >= 2 * kDay) return fmt::format("{} days ago", seconds / kDay);
  if (seconds >= 2 * kHour) return fmt::format("{} hours ago", seconds / kHour);
  return fmt::format("{} minutes ago", std::max<std::int64_t>(seconds, 0) / kMinute);
}

std::string origin_text(const store::FileHeader& header) {
  const std::string run =
      header.run_folder.empty() ? "a run without a folder" : "run " + header.run_folder;
  return fmt::format("{}, rank {} of {}, begun {} on {}", run, header.rank, header.world_size,
                     age_text(header.created_s), header.host);
}

}  // namespace strata::engine
