#include "engine/run/portable_copies.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <span>

#include "engine/checkpoint/run_options.h"
#include "engine/step/agreement.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

PortableWriterOptions writer_options(const RunSetup& setup, Dtype weights,
                                     const StepFolders& folders, std::int64_t keep) {
  return {setup.topology.rank, setup.topology.world_size,
          exported_model_files(setup.model, weights, kept_model_folder(setup.options.run)), folders,
          keep};
}

PortableFormat format_of(const RunSetup& setup, PortableContent content) {
  PortableFormat format;
  format.content = content;
  format.weights = setup.shape.precision;
  return format;
}

}  // namespace

void check_portable_outputs(const Options& options) {
  if (options.run.empty()) return;
  const std::string run = run_name(options.run);
  if (!options.checkpoint_to.empty()) check_checkpoint_directory(options.checkpoint_to, run);
  if (!options.export_to.empty()) check_export_folder(options.export_to, run);
  if (options.export_every > 0) check_snapshots(options.export_to, run);
}

PortableCopies::PortableCopies(const RunSetup& setup, const MachineRates& rates,
                               const RunStore& store, Device& device, comm::Communicator& comm,
                               StepRequests& requests, std::int64_t begun_at)
    : setup_(setup),
      comm_(comm),
      requests_(requests),
      manifest_(store.manifest),
      options_(nlohmann::json::parse(run_options_json(setup.options))),
      arithmetic_(arithmetic_json(setup, rates)),
      run_(run_name(setup.options.run)),
      memory_(device.allocate_pinned(kPortableTag, portable_memory_bytes(setup))),
      blocks_(*store.volume, store.manifest, setup.topology.rank) {
  const Options& options = setup.options;
  if (options.export_every > 0) {
    const fs::path model = folder_path(options.export_to);
    add_series(PortableContent::weights, {model.parent_path(), snapshot_prefix(model)},
               options.export_every, options.export_keep, begun_at);
  }
  if (!options.checkpoint_to.empty()) {
    add_series(PortableContent::training_state, {options.checkpoint_to}, 1, options.checkpoint_keep,
               begun_at);
  }
}

void PortableCopies::add_series(PortableContent content, const StepFolders& folders,
                                std::int64_t every, std::int64_t keep, std::int64_t begun_at) {
  std::int64_t newest =
      agree(comm_, [&] { return comm_.rank() == 0 ? newest_step(folders, begun_at, run_) : 0; });
  comm_.broadcast(std::as_writable_bytes(std::span(&newest, 1)), 0);
  const PortableFormat format = format_of(setup_, content);
  series_.push_back({std::make_unique<PortableWriter>(
                         PortableLayout(manifest_, format),
                         writer_options(setup_, format.weights, folders, keep), memory_.span()),
                     content, folders.prefix, every, newest});
}

bool PortableCopies::idle() const {
  return std::ranges::all_of(series_, [](const Series& series) { return series.writer->idle(); });
}

bool PortableCopies::wants(const Series& series, const Committer& committer) {
  const auto committed = committer.committed_step();
  return committed && *committed / series.every > series.newest / series.every;
}

std::optional<std::string> PortableCopies::after_step(const Committer& committer,
                                                      std::uint32_t requests) {
  const auto wants_commit = [&](const Series& series) { return wants(series, committer); };
  std::optional<std::string> text;
  holds_commits_ = std::ranges::any_of(series_, wants_commit);
  if ((requests & kCopyUnderWay) == 0) {
    for (Series& series : series_) {
      if (const auto report = series.writer->advance()) text = report->text;
    }
    // All ranks are idle when no rank was busy and this one is: publishing shows as busy.
    const auto next = std::ranges::find_if(series_, wants_commit);
    if (idle() && next != series_.end()) begin(*next, committer);
  }
  show_whether_busy();
  return text;
}

void PortableCopies::show_whether_busy() {
  const bool busy =
      std::ranges::any_of(series_, [](const Series& series) { return series.writer->busy(); });
  if (busy) {
    requests_.fetch_or(kCopyUnderWay);
  } else {
    requests_.fetch_and(~static_cast<std::uint32_t>(kCopyUnderWay));
  }
}

void PortableCopies::begin(Series& series, const Committer& committer) {
  series.newest = *committer.committed_step();
  begin(*series.writer, step_folder_name(series.newest, series.prefix), committer);
}

void PortableCopies::begin(PortableWriter& writer, const std::string& name,
                           const Committer& committer) {
  step_ = *committer.committed_step();
  table_ = committer.committed_table();
  std::uint64_t folder = comm_.rank() == 0 ? writer.make_folder(name) : 0;
  comm_.broadcast(std::as_writable_bytes(std::span(&folder, 1)), 0);
  writer.begin(name, folder,
               {step_, committer.committed_snapshot(), setup_.topology.world_size, options_,
                arithmetic_, run_},
               blocks_, table_);
}

std::vector<std::string> PortableCopies::make_copies(
    const Committer& committer, std::initializer_list<PortableContent> contents) {
  std::vector<std::string> texts;
  const auto end = [&](Series& series) {
    if (const auto report = series.writer->finish(comm_)) texts.push_back(report->text);
  };
  std::ranges::for_each(series_, end);
  for (Series& series : series_) {
    if (std::ranges::count(contents, series.content) == 0 || !wants(series, committer)) continue;
    begin(series, committer);
    end(series);
  }
  return texts;
}

bool PortableCopies::wants_snapshot(const Committer& committer) const {
  return std::ranges::any_of(series_, [&](const Series& series) {
    return series.content == PortableContent::weights && wants(series, committer);
  });
}

std::vector<std::string> PortableCopies::catch_up(const Committer& committer) {
  const auto texts =
      make_copies(committer, {PortableContent::weights, PortableContent::training_state});
  show_whether_busy();
  return texts;
}

std::vector<std::string> PortableCopies::finish(const Committer& committer) {
  std::vector<std::string> texts = make_copies(committer, {PortableContent::training_state});
  if (setup_.options.export_to.empty()) return texts;
  const fs::path target = folder_path(setup_.options.export_to);
  const PortableFormat format = format_of(setup_, PortableContent::weights);
  PortableWriter writer(PortableLayout(manifest_, format),
                        writer_options(setup_, format.weights, {target.parent_path()}, 0),
                        memory_.span());
  begin(writer, target.filename(), committer);
  if (const auto report = writer.finish(comm_)) {
    const bool failed = report->result == PortableReport::Result::failed;
    (failed ? export_failure_ : texts.emplace_back()) = report->text;
  }
  return texts;
}

void PortableCopies::require_exported() {
  agree(comm_, [&] {
    if (export_failure_.empty()) return;
    throw_error<IoError>(
        "--export: {}; the run is complete: `strata export {} DIR` writes what it trained",
        export_failure_, setup_.options.run);
  });
}

}  // namespace strata::engine
