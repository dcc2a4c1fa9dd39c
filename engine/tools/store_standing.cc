#include "engine/tools/store_standing.h"

#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/checkpoint/store_pointer.h"
#include "kernels/base/error.h"

namespace strata::engine {

using store::FoundStore;
using store::Holding;
using store::StoreState;

namespace {

namespace fs = std::filesystem;

struct StoreVerdict {
  StoreStanding standing;
  std::string reason;
};

struct Held {
  Holding holding = Holding::unknown;
  std::int64_t step = 0;
};

bool are_of_one_rank(const store::FileHeader& a, const store::FileHeader& b) {
  return a.run_id == b.run_id && a.rank == b.rank;
}

// What the file of the first directory holds, all of its store does.
void share_holdings(std::vector<FoundStore>& stores) {
  for (const FoundStore& first : stores) {
    if (!first.header || first.header->directory != 0) continue;
    for (FoundStore& part : stores) {
      if (!part.header || !are_of_one_rank(*part.header, *first.header)) continue;
      part.holding = first.holding;
      part.step = first.step;
    }
  }
}

// By the file itself, or by that of the rank's first directory where that was made.
Held held_by(const FoundStore& found, const StorePointer& pointer) {
  const auto rank = static_cast<std::size_t>(found.header->rank);
  const Held own{found.holding, found.step};
  if (own.holding != Holding::unknown || rank >= pointer.ranks.size()) return own;
  const fs::path name = fs::path(found.file.path()).filename();
  for (const std::string& directory : pointer.ranks[rank].directories) {
    try {
      const auto first = store::look_at_store((directory / name).string());
      if (first && first->holding != Holding::unknown) return {first->holding, first->step};
    } catch (const IoError&) {  // it may be in the next
    }
  }
  return own;
}

std::string text_of(const Held& held, const std::string& run_folder) {
  return held.holding == Holding::state
             ? fmt::format("holds step {} of run {}", held.step, run_folder)
             : fmt::format("may hold a state of run {}", run_folder);
}

// `pointer`: of its run; nothing: there is none.
StoreVerdict judge_idle(const FoundStore& found, const std::optional<StorePointer>& pointer) {
  const std::string& folder = found.header->run_folder;
  const Held own{found.holding, found.step};
  if (!pointer) {
    if (own.holding == Holding::nothing) return {StoreStanding::stale, ""};
    return {StoreStanding::orphan,
            fmt::format("{}, whose store.json is gone, or not mounted; --force removes it",
                        text_of(own, folder))};
  }
  const Held held = held_by(found, *pointer);
  if (pointer->run_id != store::format_run_id(found.header->run_id)) {
    const std::string other = fmt::format("run {} has another store now", folder);
    if (held.holding == Holding::nothing) return {StoreStanding::stale, other};
    return {StoreStanding::orphan,
            fmt::format("{}; {}, or the run that had this one was moved; --force removes it",
                        text_of(held, folder), other)};
  }
  if (held.holding == Holding::nothing) {
    return {StoreStanding::stale, fmt::format("run {} cannot go on from it", folder)};
  }
  return {StoreStanding::resumable,
          fmt::format("{}; to free it, remove that folder, then gc with --force",
                      text_of(held, folder))};
}

StoreVerdict verdict_on(const FoundStore& found) {
  switch (found.state) {
    case StoreState::in_use:
      return {StoreStanding::in_use, ""};
    case StoreState::damaged:
      return {StoreStanding::damaged, ""};
    case StoreState::other_version:
      return {StoreStanding::other_version, ""};
    case StoreState::idle:
      break;
  }
  const std::string& folder = found.header->run_folder;
  if (folder.empty()) return {StoreStanding::stale, ""};
  try {
    return judge_idle(found, read_store_pointer(folder));
  } catch (const std::exception& error) {
    const Held own{found.holding, found.step};
    if (own.holding == Holding::nothing) return {StoreStanding::stale, ""};
    return {StoreStanding::resumable,
            fmt::format("{}, which cannot be looked at: {}", text_of(own, folder), error.what())};
  }
}

}  // namespace

const char* name_of(StoreStanding standing) {
  switch (standing) {
    case StoreStanding::in_use:
      return "in use";
    case StoreStanding::resumable:
      return "kept for resuming";
    case StoreStanding::orphan:
      return "without its run";
    case StoreStanding::stale:
      return "stale";
    case StoreStanding::damaged:
      return "damaged";
    case StoreStanding::other_version:
      return "of another version";
  }
  return "";
}

std::vector<JudgedStore> judge(std::vector<FoundStore> found) {
  share_holdings(found);
  std::vector<JudgedStore> judged;
  for (FoundStore& store : found) {
    StoreVerdict verdict = verdict_on(store);
    judged.push_back({std::move(store), verdict.standing, std::move(verdict.reason)});
  }
  return judged;
}

LeftOver left_over(const std::string& directory) {
  LeftOver left;
  for (const JudgedStore& judged : judge(store::find_stores(directory))) {
    const bool is_stale = judged.standing == StoreStanding::stale;
    const bool needs_force =
        judged.standing == StoreStanding::damaged || judged.standing == StoreStanding::orphan;
    if (!is_stale && !needs_force) continue;
    ++(is_stale ? left.stale : left.forced);
    left.bytes += judged.found.file.allocated_bytes();
  }
  return left;
}

}  // namespace strata::engine
