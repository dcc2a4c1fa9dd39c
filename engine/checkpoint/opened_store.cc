#include "engine/checkpoint/opened_store.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/step/agreement.h"
#include "engine/step/shared_text.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "offload/store/store_files.h"

namespace strata::engine {

using offload::StateKind;

namespace {

constexpr std::int64_t kVerifiedAtOnce = 8;  // blocks, half of them in flight

void check_identity(const store::FileHeader& header, const StorePointer& pointer, int shard,
                    const std::string& file) {
  if (header.rank == shard && header.world_size == pointer.world_size() &&
      store::format_run_id(header.run_id) == pointer.run_id) {
    return;
  }
  throw_error<ConfigError>(
      "store file {}: it is rank {} of {} of store {}, not rank {} of {} of store {}, which {} "
      "names",
      file, header.rank, header.world_size, store::format_run_id(header.run_id), shard,
      pointer.world_size(), pointer.run_id, kStorePointerFile);
}

}  // namespace

OpenedShard::OpenedShard(const std::vector<std::string>& files, io::VolumeAccess access,
                         const io::EngineOptions& engine)
    : stored(files, access, engine, nullptr),
      volume(&stored.volume()),
      reader(stored.blocks()),
      commits(stored.commits()) {}

const store::FoundCommit& OpenedShard::commit(std::int64_t sequence) const {
  const auto found = std::ranges::find(
      commits.valid, sequence, [](const auto& commit) { return commit.superblock.sequence; });
  STRATA_CHECK(found != commits.valid.end(), "no commit {}", sequence);
  return *found;
}

std::vector<StoredBlock> blocks_of(const OpenedShard& shard, const store::CommitTable& table,
                                   int unit) {
  std::vector<StoredBlock> blocks;
  for (const StateKind kind : offload::kLastingKinds) {
    for (std::int64_t block = 0; block < shard.reader.blocks(unit, kind); ++block) {
      blocks.push_back({&shard.reader, &table, unit, kind, block});
    }
  }
  return blocks;
}

std::int64_t largest_block_bytes(const store::Manifest& manifest) {
  std::int64_t elements = 0;
  for (const store::StoredUnit& unit : manifest.units) {
    elements = std::max(elements, std::min(unit.shard_elements, manifest.block_elements));
  }
  std::int64_t bytes = 0;
  for (const StateKind kind : offload::kLastingKinds) {
    bytes = std::max(bytes, offload::state_bytes(kind, manifest.dtypes, elements, elements));
  }
  return bytes;
}

OpenedStore::OpenedStore(const StorePointer& pointer, const std::vector<std::string>& directories,
                         const io::EngineOptions& engine, std::optional<std::int64_t> step,
                         comm::Communicator& comm)
    : comm_(comm), engine_(engine) {
  find_files(pointer, directories);
  choose_keepers(pointer);
  agree(comm_, [&] { open_kept(pointer); });
  share_manifest();
  commits_ = gather_commits();
  choice_ = agree(comm_, [&] { return choose_commit(commits_, manifest_.slots, step); });
  if (!choice_.damage.empty()) refuse(choice_.damage, choice_.other);
}

void OpenedStore::find_files(const StorePointer& pointer,
                             const std::vector<std::string>& directories) {
  const auto count = pointer.ranks.size();
  std::vector<std::uint8_t> mine(count);
  for (std::size_t s = 0; s < count; ++s) {
    std::vector<std::string> places = pointer.ranks[s].directories;
    places.insert(places.end(), directories.begin(), directories.end());
    files_.push_back(store::StoredShard::find_files(places, pointer.run_id, static_cast<int>(s)));
    mine[s] = files_.back().empty() ? 0 : 1;
  }
  reach_.resize(count * static_cast<std::size_t>(comm_.world_size()));
  comm_.all_gather_host(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(reach_)));
}

bool OpenedStore::reaches(int rank, int shard) const {
  return reach_[static_cast<std::size_t>(rank) * files_.size() + static_cast<std::size_t>(shard)] !=
         0;
}

void OpenedStore::choose_keepers(const StorePointer& pointer) {
  for (int shard = 0; shard < pointer.world_size(); ++shard) {
    std::vector<int> reaching;
    for (int rank = 0; rank < comm_.world_size(); ++rank) {
      if (reaches(rank, shard)) reaching.push_back(rank);
    }
    if (reaching.empty()) {
      const StoreOfRank& made = pointer.ranks[static_cast<std::size_t>(shard)];
      throw AgreedFailure(
          fmt::format("no rank reaches all files of rank {} of the run's store, made on {} in {} "
                      "({}): name the directories where they are now with --nvme, or start from a "
                      "portable checkpoint with --resume-from",
                      shard, made.host, fmt::join(made.directories, ", "),
                      store::store_file_name({pointer.run_id, shard, pointer.world_size(), ""})),
          kExitUsage);
    }
    const bool own = std::ranges::find(reaching, shard) != reaching.end();
    keepers_.push_back(own ? shard : reaching[static_cast<std::size_t>(shard) % reaching.size()]);
  }
}

void OpenedStore::open_kept(const StorePointer& pointer) {
  for (int shard = 0; shard < shards(); ++shard) {
    if (keeper(shard) != comm_.rank()) continue;
    const auto& files = files_[static_cast<std::size_t>(shard)];
    const auto opened = kept_.try_emplace(shard, files, io::VolumeAccess::exclusive, engine_).first;
    check_identity(opened->second.stored.header(), pointer, shard, files.front());
  }
}

OpenedShard OpenedStore::open_shared(int shard) const {
  return {files_[static_cast<std::size_t>(shard)], io::VolumeAccess::shared, engine_};
}

void OpenedStore::share_manifest() {
  const int root = keeper(0);
  std::string text;
  if (root == comm_.rank()) text = store::encode(kept_.at(0).stored.manifest());
  auto length = static_cast<std::int64_t>(text.size());
  comm_.broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  text.resize(static_cast<std::size_t>(length));
  comm_.broadcast(std::as_writable_bytes(std::span(text)), root);
  manifest_ = store::decode_manifest(text);
}

std::vector<ShardCommits> OpenedStore::gather_commits() {
  const auto count = static_cast<std::size_t>(shards());
  std::vector<ShardCommits> mine(count);
  for (const auto& [shard, opened] : kept_) {
    mine[static_cast<std::size_t>(shard)] = summary_of(opened.commits);
  }
  std::vector<ShardCommits> all(count * static_cast<std::size_t>(comm_.world_size()));
  comm_.all_gather_host(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<ShardCommits> commits;
  for (std::size_t s = 0; s < count; ++s) {
    commits.push_back(all[static_cast<std::size_t>(keepers_[s]) * count + s]);
  }
  return commits;
}

std::optional<store::Superblock> OpenedStore::commit() const {
  if (!choice_.sequence) return std::nullopt;
  const auto own = static_cast<std::size_t>(comm_.rank());
  return superblock_of(commits_[own < commits_.size() ? own : 0], *choice_.sequence);
}

std::int64_t OpenedStore::step_of(std::int64_t sequence) const {
  return superblock_of(commits_.front(), sequence).step;
}

void OpenedStore::verify_kept(std::int64_t sequence) const {
  const std::int64_t block_bytes = largest_block_bytes(manifest_);
  Budget budget("verification", kVerifiedAtOnce * block_bytes);
  const AlignedBuffer staging(budget, "blocks", kVerifiedAtOnce * block_bytes);
  WorkerSet this_thread(1);
  VerifiedBlocks blocks(staging.span(), block_bytes, this_thread);
  for (const auto& [shard, opened] : kept_) {
    const store::CommitTable& table = opened.commit(sequence).table;
    for (int unit = 0; unit < static_cast<int>(manifest_.units.size()); ++unit) {
      blocks.read(blocks_of(opened, table, unit), [](std::size_t, std::span<const std::byte>) {});
    }
  }
}

void OpenedStore::share() {
  agree(comm_, [&] {
    for (auto& [shard, opened] : kept_) opened.volume->share_lock();
  });
}

void OpenedStore::forget_other_commits() {
  std::exception_ptr failure;
  try {
    verify_kept(choice_.sequence.value());
  } catch (const IoError&) {
    failure = std::current_exception();
  }
  settle(failure);
  agree(comm_, [&] {
    for (auto& [shard, opened] : kept_) {
      const store::Manifest& manifest = opened.stored.manifest();
      const std::int64_t bytes = store::CommitLog::staging_bytes(manifest);
      Budget budget("superblocks", round_up(bytes, kPageBytes));
      const AlignedBuffer staging(budget, "superblock", bytes);
      store::CommitLog log(*opened.volume, opened.volume->file(0), opened.stored.header(), manifest,
                           staging.span());
      log.continue_after(&opened.commit(*choice_.sequence).superblock);
    }
  });
  choice_.other.reset();
}

void OpenedStore::settle(const std::exception_ptr& failure) {
  std::string damage;
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const DamagedCommit& error) {
    damage = error.what();
  } catch (const std::exception&) {  // raised below
  }
  const std::vector<std::string> all = gather_texts(comm_, damage);
  const auto first = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  if (first != all.end()) {
    refuse(fmt::format("the commit of step {} is damaged: {}", step_of(choice_.sequence.value()),
                       *first),
           choice_.other);
  }
  raise_together(comm_, failure);
}

void OpenedStore::refuse(const std::string& damage, std::optional<std::int64_t> other) {
  constexpr const char* kPortable = "start from a portable checkpoint with --resume-from";
  if (!other) {
    throw AgreedFailure(fmt::format("{}; there is no other commit: {}", damage, kPortable),
                        kExitFailed);
  }
  std::string mine;
  try {
    verify_kept(*other);
  } catch (const DamagedCommit& error) {
    mine = error.what();
  }
  const std::vector<std::string> all = gather_texts(comm_, mine);
  const std::int64_t step = step_of(*other);
  const auto first = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  throw AgreedFailure(
      first == all.end()
          ? fmt::format("{}; the commit of step {} is intact: resume with --resume-step {}", damage,
                        step, step)
          : fmt::format("{}; the commit of step {} is damaged too ({}): {}", damage, step, *first,
                        kPortable),
      kExitFailed);
}

}  // namespace strata::engine
