#include "engine/run/portable_copies.h"

#include <filesystem>
#include <span>

#include "engine/checkpoint/run_options.h"
#include "engine/step/agreement.h"

namespace strata::engine {

namespace {

PortableWriterOptions writer_options(const RunSetup& setup, Dtype weights,
                                     const std::string& directory, std::int64_t keep) {
  return {setup.topology.rank, setup.topology.world_size,
          exported_model_files(setup.model, weights, kept_model_folder(setup.options.run)),
          directory, keep};
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
  if (setup.options.checkpoint_to.empty()) return;
  step_ = has_copy(begun_at) ? begun_at : 0;
  const PortableFormat format = format_of(setup, PortableContent::training_state);
  writer_.emplace(PortableLayout(manifest_, format),
                  writer_options(setup, format.weights, setup.options.checkpoint_to,
                                 setup.options.checkpoint_keep),
                  memory_.span());
}

bool PortableCopies::has_copy(std::int64_t step) const {
  bool has = agree(comm_, [&] {
    return comm_.rank() == 0 &&
           is_of_run(setup_.options.checkpoint_to + "/" + step_folder_name(step), run_);
  });
  comm_.broadcast(std::as_writable_bytes(std::span(&has, 1)), 0);
  return has;
}

std::optional<std::string> PortableCopies::after_step(const Committer& committer,
                                                      std::uint32_t requests) {
  just_begun_ = false;
  if (!writer_) return std::nullopt;
  std::optional<std::string> text;
  if ((requests & kCopyUnderWay) == 0) {
    if (const auto report = writer_->advance()) text = report->text;
  }
  // All ranks are idle when no rank was busy and this one is: publishing shows as busy.
  const auto committed = committer.committed_step();
  const bool may_begin = (requests & kCopyUnderWay) == 0 && writer_->idle();
  if (may_begin && committed && *committed > step_) {
    begin(*writer_, step_folder_name(*committed), committer);
    just_begun_ = true;
  }
  show_whether_busy();
  return text;
}

void PortableCopies::show_whether_busy() {
  if (writer_->busy()) {
    requests_.fetch_or(kCopyUnderWay);
  } else {
    requests_.fetch_and(~static_cast<std::uint32_t>(kCopyUnderWay));
  }
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

std::vector<std::string> PortableCopies::finish(const Committer& committer) {
  std::vector<std::string> texts;
  const auto end = [&](PortableWriter& writer) {
    if (const auto report = writer.finish(comm_)) texts.push_back(report->text);
  };
  if (writer_) {
    end(*writer_);
    if (*committer.committed_step() > step_) {
      begin(*writer_, step_folder_name(*committer.committed_step()), committer);
      end(*writer_);
    }
  }
  if (!setup_.options.export_to.empty()) {
    const std::filesystem::path target = folder_path(setup_.options.export_to);
    const PortableFormat format = format_of(setup_, PortableContent::weights);
    PortableWriter writer(PortableLayout(manifest_, format),
                          writer_options(setup_, format.weights, target.parent_path(), 0),
                          memory_.span());
    begin(writer, target.filename(), committer);
    const auto report = writer.finish(comm_);
    if (report) {
      const bool failed = report->result == PortableReport::Result::failed;
      (failed ? export_failure_ : texts.emplace_back()) = report->text;
    }
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
