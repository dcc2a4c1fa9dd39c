#include "engine/tools/gc_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/tools/origin_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/store_search.h"

namespace strata::engine {

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

bool needs_force(StoreStanding standing) {
  return standing == StoreStanding::damaged || standing == StoreStanding::orphan;
}

Fate decide(const JudgedStore& store, const Options& options) {
  const bool removable =
      store.standing == StoreStanding::stale || (needs_force(store.standing) && options.force);
  if (!removable) return Fate::kept;
  return options.dry_run ? Fate::would_be_removed : Fate::removed;
}

// Whose it is, or why that cannot be told; and why it is judged as it is.
std::string about(const JudgedStore& store) {
  if (!store.found.header) return store.found.problem;
  const std::string origin = origin_text(*store.found.header);
  return store.reason.empty() ? origin : fmt::format("{}\n  {}", origin, store.reason);
}

nlohmann::json store_json(const JudgedStore& store, std::int64_t bytes, Fate fate) {
  nlohmann::json json = {{"path", store.found.file.path()},
                         {"state", name_of(store.standing)},
                         {"bytes", bytes},
                         {"fate", name_of(fate)}};
  if (!store.reason.empty()) json["reason"] = store.reason;
  if (!store.found.header) {
    json["problem"] = store.found.problem;
    return json;
  }
  const store::FileHeader& header = *store.found.header;
  json["run_id"] = store::format_run_id(header.run_id);
  json["run_folder"] = header.run_folder;
  json["rank"] = header.rank;
  json["world_size"] = header.world_size;
  json["host"] = header.host;
  json["process_id"] = header.process_id;
  json["created"] = header.created_s;
  return json;
}

struct Removal {
  nlohmann::json stores = nlohmann::json::array();
  std::int64_t freed_bytes = 0;
  int kept_for_force = 0;
  std::vector<std::string> errors;
};

// What cannot be done in one place is said at the end, and the others are gone through.
template <typename Work>
bool try_to(Removal& removal, const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    removal.errors.emplace_back(error.what());
    return false;
  }
}

void remove_or_keep(JudgedStore& store, const Options& options, Removal& removal) {
  Fate fate = decide(store, options);
  const std::int64_t bytes = store.found.file.allocated_bytes();
  if (fate == Fate::removed && !try_to(removal, [&] { store.found.file.remove(); })) {
    fate = Fate::kept;
  }
  if (fate != Fate::kept) removal.freed_bytes += bytes;
  if (fate == Fate::kept && needs_force(store.standing)) ++removal.kept_for_force;
  removal.stores.push_back(store_json(store, bytes, fate));
  if (options.json) return;
  fmt::print("{}: {}, {}: {}\n  {}\n", store.found.file.path(), name_of(store.standing),
             format_bytes(bytes), name_of(fate), about(store));
}

std::string summary(const Removal& removal, const Options& options) {
  std::string text = fmt::format("{} {}", format_bytes(removal.freed_bytes),
                                 options.dry_run ? "would be freed" : "freed");
  if (removal.kept_for_force > 0) {
    text += fmt::format("; {} damaged or without its run, which --force removes",
                        removal.kept_for_force);
  }
  return text;
}

}  // namespace

std::string left_over_text(const LeftOver& left) {
  std::string text = left.stale > 0 ? count_text(left.stale, "stale store") : "";
  if (left.forced > 0) {
    text += fmt::format("{}{} damaged or without its run", text.empty() ? "" : " and ",
                        count_text(left.forced, "store"));
  }
  return fmt::format("{}, {}", text, format_bytes(left.bytes));
}

std::string reclaim_advice(const LeftOver& left, const std::string& directory) {
  return fmt::format("strata gc {} reclaims the space{}", directory,
                     left.forced > 0 ? ", of the latter with --force" : "");
}

void check_gc_options(const Options& options) {
  if (options.arguments.empty()) {
    throw ConfigError("gc: name the directories to look in, such as those of --nvme");
  }
}

int run_gc(const Options& options) {
  Removal removal;
  std::vector<store::FoundStore> found;
  for (const std::string& directory : options.arguments) {
    try_to(removal,
           [&] { std::ranges::move(store::find_stores(directory), std::back_inserter(found)); });
  }
  for (JudgedStore& store : judge(std::move(found))) remove_or_keep(store, options, removal);
  if (options.json) {
    const nlohmann::json json = {{"stores", removal.stores},
                                 {"dry_run", options.dry_run},
                                 {"freed_bytes", removal.freed_bytes}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("{}\n", summary(removal, options));
  }
  if (!removal.errors.empty()) throw_error<IoError>("{}", fmt::join(removal.errors, "; "));
  return 0;
}

}  // namespace strata::engine
