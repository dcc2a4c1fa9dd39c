#include "engine/run/durable_run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "engine/run/storage_check.h"
#include "engine/step/agreement.h"
#include "engine/step/shared_text.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

std::vector<std::string> absolute_directories(const Options& options) {
  std::vector<std::string> paths;
  for (const io::VolumeDirectory& directory : store_directories(options)) {
    paths.push_back(std::filesystem::absolute(directory.path).lexically_normal());
  }
  return paths;
}

std::vector<std::string> places_of(const io::Volume& volume) {
  std::vector<std::string> paths;
  for (int device = 0; device < volume.devices(); ++device) {
    paths.push_back(std::filesystem::absolute(volume.device_path(device)).lexically_normal());
  }
  return paths;
}

// Whether a new store has no room on some rank unless the old one gives back what it can. Only then
// is the commit before the one that is kept forgotten before all of that is verified and moved.
bool lacks_space_beside(const RunSetup& setup, comm::Communicator& comm) {
  std::string lacking;
  try {
    check_space_beside(setup, {});
  } catch (const ConfigError& error) {
    lacking = error.what();
  }
  return std::ranges::any_of(gather_texts(comm, lacking),
                             [](const auto& text) { return !text.empty(); });
}

}  // namespace

DurableRun::DurableRun(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure)
    : setup_(setup), comm_(comm), failure_(failure) {
  const std::string& folder = setup.options.run;
  const std::string text = broadcast_text(
      comm, agree(comm, [&] {
        const auto pointer = comm.rank() == 0 ? read_store_pointer(folder) : std::nullopt;
        return pointer ? text_of(*pointer) : std::string();
      }));
  if (!text.empty()) pointer_ = parse_store_pointer(text, folder);
}

DurableRun::~DurableRun() = default;

RunStore DurableRun::open_store(const io::EngineChoice& engine, Tracer* tracer) {
  if (pointer_) {
    const std::vector<std::string> directories = absolute_directories(setup_.options);
    stored_ = std::make_unique<StoredRun>(
        *pointer_,
        StoredRunOptions{directories, engine_options(setup_.options, engine),
                         setup_.options.resume_step, setup_.options.run, &failure_},
        comm_);
    if (!stored_->commit()) {
      abandon_store_without_commit();
    } else {
      snapshot_ = stored_->commit()->snapshot;
      in_place_ = stored_->fits(manifest_of(setup_), directories);
      if (in_place_) {
        return agree(comm_, [&] { return described_store(stored_->take_volume(), setup_); });
      }
      const std::vector<DeadSpace> dead = stored_->dead_space();
      agree(comm_, [&] { check_space_beside(setup_, dead); });
      if (lacks_space_beside(setup_, comm_)) stored_->free_dead_slots();
    }
  }
  if (stored_ == nullptr && !setup_.options.resume_from.empty()) {
    portable_ = agree(comm_, [&] {
      return std::make_unique<PortableFiller>(setup_.options.resume_from, manifest_of(setup_),
                                              comm_.rank());
    });
    snapshot_ = portable_->origin().snapshot;
  }
  return make_new_store(setup_, comm_, engine, tracer);
}

// The pointer first: a store that nothing points to is nobody's.
void DurableRun::abandon_store_without_commit() {
  agree(comm_, [&] {
    if (comm_.rank() == 0) remove_store_pointer(setup_.options.run);
  });
  stored_->remove();
  stored_.reset();
}

StateFiller* DurableRun::filler(WorkerSet& workers) {
  if (stored_ == nullptr) return portable_.get();
  filler_ = stored_->filler(workers);
  return filler_.get();
}

void DurableRun::begin(Trainer& trainer, Session& session,
                       std::function<void()> before_superblock) {
  RunStore& store = session.store();
  const AlignedSpan staging = trainer.checkpoint_staging();
  const std::int64_t log_bytes = store::CommitLog::staging_bytes(store.manifest);
  log_ = std::make_unique<store::CommitLog>(*store.volume, store.volume->file(0), store.header,
                                            store.manifest, staging.sub(0, log_bytes));
  log_->continue_after(in_place_ ? &*stored_->commit() : nullptr);
  std::optional<Committer::Origin> origin;
  if (in_place_) origin = {stored_->commit()->step, snapshot_};
  committer_ = std::make_unique<Committer>(
      CommitterParts{trainer.state(), *log_, store.manifest, session.device(), failure_,
                     session.tracer(), std::move(before_superblock)},
      staging.sub(log_bytes, staging.bytes() - log_bytes), origin);
  trainer.go_on_from({snapshot_.optimizer_step, snapshot_.skipped_in_a_row});
  begun_ = true;
  kept_ = stored_ != nullptr;
  if (!in_place_) {
    store.volume->keep();
    if (step() > 0) commit_now(trainer, step(), snapshot_);
  }
  point_to(store);  // in place too: its files may have been moved
  if (!in_place_ && stored_ != nullptr) stored_->remove();
  stored_.reset();
  filler_.reset();
  portable_.reset();
}

void DurableRun::end() noexcept {
  committer_.reset();
  log_.reset();
}

void DurableRun::give_up(Session& session) noexcept {
  if (kept_ || !begun_) return;
  try {
    if (comm_.rank() == 0) remove_store_pointer(setup_.options.run);
    session.volume()->remove();
  } catch (const std::exception&) {  // on top of the failure: `strata gc` finds what is left
  }
}

void DurableRun::point_to(const RunStore& store) {
  const nlohmann::json mine = {{"host", host_name()}, {"directories", places_of(*store.volume)}};
  StorePointer pointer{store::format_run_id(store.header.run_id), {}};
  for (const std::string& text : gather_texts(comm_, mine.dump())) {
    const auto json = nlohmann::json::parse(text);
    pointer.ranks.push_back({json["host"], json["directories"]});
  }
  agree(comm_, [&] {
    if (comm_.rank() == 0) replace_store_pointer(setup_.options.run, pointer);
  });
}

void DurableRun::commit_now(Trainer& trainer, std::int64_t step, const store::Snapshot& snapshot) {
  trainer.drain();
  if (committer_->committed_step() == step) return;
  committer_->want(step, snapshot);
  committer_->updates_applied();
  committer_->before_updates();
  comm_.barrier();
  committer_->updates_may_start();
}

std::string DurableRun::origin_text() const {
  if (portable_ != nullptr) return fmt::format("step {} of {}", step(), setup_.options.resume_from);
  if (stored_ == nullptr) return "";
  return fmt::format("step {}, {}", stored_->commit()->step,
                     in_place_ ? "in the store that it has" : "into a new store");
}

}  // namespace strata::engine
