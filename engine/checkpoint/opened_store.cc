#include "engine/checkpoint/opened_store.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "engine/step/agreement.h"
#include "engine/step/shared_text.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"
#include "kernels/base/worker_set.h"
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
      "names; move it away, and put back the file that had this name",
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
                         comm::Communicator& comm, io::VolumeAccess access,
                         const FailureLatch* failure)
    : comm_(comm), failure_(failure), engine_(engine) {
  find_files(pointer, directories);
  choose_keepers(pointer);
  agree(comm_, [&] { open_kept(pointer, access); });
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
    std::vector<std::string> places = directories;
    std::ranges::copy(pointer.ranks[s].directories, std::back_inserter(places));
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

void OpenedStore::open_kept(const StorePointer& pointer, io::VolumeAccess access) {
  for (int shard = 0; shard < shards(); ++shard) {
    if (keeper(shard) != comm_.rank()) continue;
    const auto& files = files_[static_cast<std::size_t>(shard)];
    const auto opened = kept_.try_emplace(shard, files, access, engine_).first;
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
  manifest_ = store::decode_manifest(broadcast_text(comm_, std::move(text), root));
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

// Of what this rank keeps.
std::exception_ptr OpenedStore::verify_kept(VerifiedBlocks& blocks, std::int64_t sequence,
                                            int unit) const {
  try {
    for (const auto& [shard, opened] : kept_) {
      const store::CommitTable& table = opened.commit(sequence).table;
      blocks.read(blocks_of(opened, table, unit), [](std::size_t, std::span<const std::byte>) {});
    }
  } catch (const Error&) {
    return std::current_exception();
  }
  return nullptr;
}

// Verifies a commit, unit by unit on all ranks, so that none waits long for another; empty: it is
// intact.
std::string OpenedStore::find_damage(std::int64_t sequence) {
  const std::int64_t block_bytes = largest_block_bytes(manifest_);
  Budget budget("verification", kVerifiedAtOnce * block_bytes);
  const AlignedBuffer staging(budget, "blocks", kVerifiedAtOnce * block_bytes);
  const comm::Topology& topology = comm_.topology();
  const CpuShare share = cpu_share(topology.local_rank, topology.local_world_size);
  WorkerSet workers(share.threads, share.cpus);
  VerifiedBlocks blocks(staging.span(), block_bytes, workers, failure_);
  std::string damage;
  for (int unit = 0; damage.empty() && unit < std::ssize(manifest_.units); ++unit) {
    damage = first_damage(verify_kept(blocks, sequence, unit));
  }
  return damage;
}

// Of all ranks, by rank. `failure`: this rank's, or null; one that is no damage ends all.
std::string OpenedStore::first_damage(const std::exception_ptr& failure) {
  std::string mine;
  std::exception_ptr other;
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const DamagedCommit& error) {
    mine = error.what();
  } catch (const std::exception&) {
    other = std::current_exception();
  }
  raise_together(comm_, other);
  for (const std::string& damage : gather_texts(comm_, mine)) {
    if (!damage.empty()) return damage;
  }
  return "";
}

void OpenedStore::share() {
  agree(comm_, [&] {
    for (auto& [shard, opened] : kept_) opened.volume->share_lock();
  });
}

void OpenedStore::forget_other_commits() {
  refuse_damage(find_damage(choice_.sequence.value()));
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
  refuse_damage(first_damage(failure));
}

void OpenedStore::refuse_damage(const std::string& damage) {
  if (damage.empty()) return;
  refuse(fmt::format("the checkpoint of step {} is damaged: {}", step_of(choice_.sequence.value()),
                     damage),
         choice_.other);
}

void OpenedStore::refuse(const std::string& damage, std::optional<std::int64_t> other) {
  constexpr const char* kPortable = "start from a portable checkpoint with --resume-from";
  if (!other) {
    throw AgreedFailure(fmt::format("{}; there is no other checkpoint: {}", damage, kPortable),
                        kExitFailed);
  }
  const std::string its_damage = find_damage(*other);
  const std::int64_t step = step_of(*other);
  throw AgreedFailure(
      its_damage.empty()
          ? fmt::format("{}; the checkpoint of step {} is intact: resume with --resume-step {}",
                        damage, step, step)
          : fmt::format("{}; the checkpoint of step {} is damaged too ({}): {}", damage, step,
                        its_damage, kPortable),
      kExitFailed);
}

}  // namespace strata::engine
