#include "engine/tools/inspect_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/portable/reader.h"
#include "engine/tools/origin_text.h"
#include "engine/tools/store_look.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// Units whose live slot it is.
std::int64_t units_in(const store::CommitTable& table, int slot) {
  return std::ranges::count(table.live_slots, slot);
}

std::string commit_text(const store::FoundCommit& commit, const store::Manifest& manifest) {
  const store::Superblock& superblock = commit.superblock;
  std::string text =
      fmt::format("copy {}: {} of step {}, sequence number {}", superblock.copy(),
                  store::name_of(superblock.kind), superblock.step, superblock.sequence);
  if (manifest.slots == 2) {
    text +=
        fmt::format("; live slots: A of {}, B of {}", count_text(units_in(commit.table, 0), "unit"),
                    count_text(units_in(commit.table, 1), "unit"));
  }
  return text;
}

nlohmann::json commit_json(const store::FoundCommit& commit) {
  const store::Superblock& superblock = commit.superblock;
  return {{"copy", superblock.copy()},
          {"kind", store::name_of(superblock.kind)},
          {"step", superblock.step},
          {"sequence", superblock.sequence},
          {"units_in_slot", {units_in(commit.table, 0), units_in(commit.table, 1)}}};
}

std::string rank_text(const RankLook& look) {
  if (!look.files) return fmt::format("  {}\n", look.problem);
  std::string text = fmt::format("  {}; {} on disk\n", origin_text(look.files->header),
                                 format_bytes(look.disk_bytes));
  for (const std::string& path : look.files->paths) text += fmt::format("    {}\n", path);
  for (const store::FoundCommit& commit : look.commits.valid) {
    text += fmt::format("    {}\n", commit_text(commit, look.files->manifest));
  }
  for (const std::string& problem : look.commits.problems) text += fmt::format("    {}\n", problem);
  if (!look.problem.empty()) text += fmt::format("    {}\n", look.problem);
  return text;
}

nlohmann::json rank_json(const RankLook& look) {
  nlohmann::json json = {{"rank", look.place.rank}, {"files", look.place.files}};
  if (!look.problem.empty()) json["problem"] = look.problem;
  if (!look.files) return json;
  const store::FileHeader& header = look.files->header;
  json["world_size"] = header.world_size;
  json["host"] = header.host;
  json["created"] = header.created_s;
  json["disk_bytes"] = look.disk_bytes;
  json["in_use"] = look.in_use;
  json["slots"] = look.files->manifest.slots;
  json["superblocks"] = nlohmann::json::array();
  for (const auto& commit : look.commits.valid) json["superblocks"].push_back(commit_json(commit));
  json["superblock_problems"] = look.commits.problems;
  return json;
}

std::string store_text(const StoredTarget& target, const StoreLook& look) {
  std::string text = fmt::format("{}: {}{}", target.name(), look.state,
                                 look.in_use() ? "; a living run has it locked" : "");
  if (const auto logged = last_logged_step(target.run_folder)) {
    text += fmt::format("; logged up to step {}", *logged);
  }
  if (!target.run_id.empty() && !target.run_folder.empty()) {
    text += fmt::format("\n  store {} of {}", target.run_id,
                        count_text(std::ssize(target.ranks), "rank"));
  }
  text += '\n';
  for (const RankLook& rank : look.ranks) text += rank_text(rank);
  return text;
}

nlohmann::json store_json(const StoredTarget& target, const StoreLook& look) {
  nlohmann::json json = {{"run_folder", target.run_folder},
                         {"run_id", target.run_id},
                         {"state", look.state},
                         {"in_use", look.in_use()},
                         {"ranks", nlohmann::json::array()}};
  json["step"] = look.step ? nlohmann::json(*look.step) : nlohmann::json();
  const auto logged = last_logged_step(target.run_folder);
  json["logged_step"] = logged ? nlohmann::json(*logged) : nlohmann::json();
  for (const RankLook& rank : look.ranks) json["ranks"].push_back(rank_json(rank));
  return json;
}

nlohmann::json portable_json(const std::string& folder) {
  nlohmann::json json = {{"folder", folder}};
  try {
    const PortableReader reader(folder);
    std::int64_t bytes = 0;
    for (const PortableIndexFile& file : reader.index().files) bytes += file.bytes;
    json["kind"] = kind_of(reader.index().content);
    json["step"] = reader.index().origin.step;
    json["files"] = reader.index().files.size();
    json["bytes"] = bytes;
  } catch (const Error& error) {
    json["problem"] = error.what();
  }
  return json;
}

std::string portable_text(const nlohmann::json& portable) {
  if (portable.contains("problem")) return portable["problem"].get<std::string>() + "\n";
  return fmt::format("{} {}: step {}; {}, {}\n", portable["kind"].get<std::string>(),
                     portable["folder"].get<std::string>(), portable["step"].get<std::int64_t>(),
                     count_text(portable["files"].get<std::int64_t>(), "file"),
                     format_bytes(portable["bytes"].get<std::int64_t>()));
}

}  // namespace

void check_inspect_options(const Options& options) {
  if (options.arguments.empty()) {
    throw ConfigError("inspect: name a run's folder, a portable checkpoint, or directories");
  }
}

int run_inspect(const Options& options) {
  const StoredTargets targets = find_targets(options.arguments);
  nlohmann::json json = {{"stores", nlohmann::json::array()},
                         {"portable", nlohmann::json::array()},
                         {"problems", targets.problems}};
  std::string text;
  for (const StoredTarget& target : targets.stores) {
    const StoreLook look = look_at(target);
    text += store_text(target, look);
    json["stores"].push_back(store_json(target, look));
  }
  for (const std::string& folder : targets.portable) {
    json["portable"].push_back(portable_json(folder));
    text += portable_text(json["portable"].back());
  }
  for (const std::string& problem : targets.problems) text += problem + "\n";
  if (text.empty()) text = "no stores\n";
  fmt::print("{}", options.json ? json_text(json) + "\n" : text);
  return 0;
}

}  // namespace strata::engine
