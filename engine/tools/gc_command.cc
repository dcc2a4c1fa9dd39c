#include "engine/tools/gc_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/store_search.h"

namespace strata::engine {

using store::FoundStore;
using store::StoreState;

namespace {

enum class Fate { kept, removed, would_be_removed };

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::kept:
      return "kept";
    case Fate::removed:
      return "removed";
    case Fate::would_be_removed:
      return "would be removed";
  }
  return "";
}

Fate decide(const FoundStore& found, const Options& options) {
  const bool removable =
      found.state == StoreState::stale || (found.state == StoreState::damaged && options.force);
  if (!removable) return Fate::kept;
  return options.dry_run ? Fate::would_be_removed : Fate::removed;
}

std::int64_t now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string age_text(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (seconds >= 2 * kDay) return fmt::format("{} days ago", seconds / kDay);
  if (seconds >= 2 * kHour) return fmt::format("{} hours ago", seconds / kHour);
  return fmt::format("{} minutes ago", std::max<std::int64_t>(seconds, 0) / kMinute);
}

// Whose it is, or why that cannot be told.
std::string origin_text(const FoundStore& found) {
  if (!found.header) return found.problem;
  const store::FileHeader& header = *found.header;
  const std::string run =
      header.run_folder.empty() ? "a run without a folder" : "run " + header.run_folder;
  return fmt::format("{}, rank {} of {}, begun {} on {}", run, header.rank, header.world_size,
                     age_text(now_s() - header.created_s), header.host);
}

nlohmann::json store_json(const FoundStore& found, std::int64_t bytes, Fate fate) {
  nlohmann::json json = {{"path", found.file.path()},
                         {"state", store::name_of(found.state)},
                         {"bytes", bytes},
                         {"fate", name_of(fate)}};
  if (!found.header) {
    json["problem"] = found.problem;
    return json;
  }
  json["run_id"] = store::format_run_id(found.header->run_id);
  json["run_folder"] = found.header->run_folder;
  json["rank"] = found.header->rank;
  json["world_size"] = found.header->world_size;
  json["host"] = found.header->host;
  json["process_id"] = found.header->process_id;
  json["created"] = found.header->created_s;
  return json;
}

std::string summary(std::int64_t freed_bytes, int kept_damaged, const Options& options) {
  std::string text =
      fmt::format("{} {}", format_bytes(freed_bytes), options.dry_run ? "would be freed" : "freed");
  if (kept_damaged > 0) {
    text += fmt::format("; {} damaged, which --force removes", kept_damaged);
  }
  return text;
}

}  // namespace

std::string left_over_text(const store::LeftOver& left) {
  std::string text = left.stale > 0 ? count_text(left.stale, "stale store") : "";
  if (left.damaged > 0) {
    text += (text.empty() ? "" : " and ") + count_text(left.damaged, "damaged store");
  }
  return fmt::format("{}, {}", text, format_bytes(left.bytes));
}

std::string reclaim_advice(const store::LeftOver& left, const std::string& directory) {
  return fmt::format("strata gc {} reclaims the space{}", directory,
                     left.damaged > 0 ? ", of damaged ones with --force" : "");
}

void check_gc_options(const Options& options) {
  if (options.arguments.empty()) {
    throw ConfigError("gc: name the directories to look in, such as those of --nvme");
  }
}

int run_gc(const Options& options) {
  nlohmann::json stores = nlohmann::json::array();
  std::int64_t freed_bytes = 0;
  int kept_damaged = 0;
  std::vector<std::string> errors;
  // What cannot be done in one place is said at the end, and the others are gone through.
  const auto try_to = [&](const auto& work) {
    try {
      work();
      return true;
    } catch (const IoError& error) {
      errors.emplace_back(error.what());
      return false;
    }
  };
  for (const std::string& directory : options.arguments) {
    std::vector<FoundStore> all;
    try_to([&] { all = store::find_stores(directory); });
    for (FoundStore& found : all) {
      Fate fate = decide(found, options);
      const std::int64_t bytes = found.file.allocated_bytes();
      if (fate == Fate::removed && !try_to([&] { found.file.remove(); })) fate = Fate::kept;
      if (fate != Fate::kept) freed_bytes += bytes;
      if (fate == Fate::kept && found.state == StoreState::damaged) ++kept_damaged;
      stores.push_back(store_json(found, bytes, fate));
      if (options.json) continue;
      fmt::print("{}: {}, {}: {}\n  {}\n", found.file.path(), store::name_of(found.state),
                 format_bytes(bytes), name_of(fate), origin_text(found));
    }
  }
  if (options.json) {
    const nlohmann::json json = {
        {"stores", stores}, {"dry_run", options.dry_run}, {"freed_bytes", freed_bytes}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("{}\n", summary(freed_bytes, kept_damaged, options));
  }
  if (!errors.empty()) throw_error<IoError>("{}", fmt::join(errors, "; "));
  return 0;
}

}  // namespace strata::engine
