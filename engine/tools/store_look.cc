#include "engine/tools/store_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/checkpoint/commit_choice.h"
#include "engine/options/run_files.h"
#include "io/volume_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

using store::SuperblockKind;

namespace {

RankLook look_at_rank(const StoredRank& place) {
  RankLook look;
  look.place = place;
  if (place.files.empty()) {
    look.problem = missing_text(place);
    return look;
  }
  try {
    look.files = store::read_shard_files(place.files);
    for (const std::string& path : look.files->paths) {
      const io::FoundVolumeFile file(path);
      look.disk_bytes += file.allocated_bytes();
      look.in_use = look.in_use || file.in_use();
    }
    look.commits = store::look_at_commits(*look.files);
  } catch (const Error& error) {
    look.problem = error.what();
  }
  return look;
}

// Of the chosen sequence number, which every rank has.
void conclude_chosen(StoreLook& look, std::int64_t sequence) {
  for (const store::FoundCommit& commit : look.ranks.front().commits.valid) {
    const store::Superblock& superblock = commit.superblock;
    if (superblock.sequence != sequence) continue;
    look.step = superblock.step;
    look.state = superblock.kind == SuperblockKind::clean_mark
                     ? fmt::format("clean at step {}, without checkpoints", superblock.step)
                     : fmt::format("checkpoint of step {}", superblock.step);
  }
}

void conclude(StoreLook& look) {
  std::vector<ShardCommits> shards;
  for (const RankLook& rank : look.ranks) {
    if (!rank.problem.empty()) {
      look.state = "not all of it can be looked at from here";
      return;
    }
    shards.push_back(summary_of(rank.commits));
  }
  try {
    const CommitChoice choice =
        choose_commit(shards, look.ranks.front().files->manifest.slots, std::nullopt);
    if (!choice.damage.empty()) {
      look.state = "damaged: " + choice.damage;
    } else if (choice.sequence) {
      conclude_chosen(look, *choice.sequence);
    } else {
      look.state = "no checkpoint yet";
    }
  } catch (const Error& error) {  // what a resume would say
    look.state = error.what();
  }
}

}  // namespace

bool StoreLook::in_use() const {
  return std::ranges::any_of(ranks, [](const RankLook& rank) { return rank.in_use; });
}

StoreLook look_at(const StoredTarget& target) {
  StoreLook look;
  for (const StoredRank& rank : target.ranks) look.ranks.push_back(look_at_rank(rank));
  if (look.ranks.empty()) {
    look.state = "it has no store";
  } else {
    conclude(look);
  }
  return look;
}

std::optional<std::int64_t> last_logged_step(const std::string& run_folder) {
  if (run_folder.empty()) return std::nullopt;
  constexpr std::int64_t kTailBytes = 64 << 10;  // of many lines
  const auto path = std::filesystem::path(run_folder) / kLogFile;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  file.seekg(std::max<std::int64_t>(0, file.tellg() - kTailBytes));
  const std::string tail{std::istreambuf_iterator<char>(file), {}};
  std::string_view lines = tail;
  while (!lines.empty()) {
    const std::size_t begin = lines.find_last_of('\n');
    const std::string_view line = begin == std::string_view::npos ? lines : lines.substr(begin + 1);
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer()) {
      return json["step"].get<std::int64_t>();
    }
    lines = lines.substr(0, begin == std::string_view::npos ? 0 : begin);
  }
  return std::nullopt;
}

}  // namespace strata::engine
