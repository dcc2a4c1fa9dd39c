#include "engine/tools/export_command.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/opened_store.h"
#include "engine/checkpoint/run_options.h"
#include "engine/checkpoint/store_pointer.h"
#include "engine/options/json_text.h"
#include "engine/options/run_files.h"
#include "engine/plan/model_source.h"
#include "engine/portable/copy.h"
#include "engine/portable/publish.h"
#include "engine/portable/steps.h"
#include "io/engine_choice.h"
#include "io/plain_file.h"
#include "io/volume_directories.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json read_json(const std::string& path) {
  const std::optional<std::string> text = io::read_file(path);
  if (!text) throw_error<ConfigError>("there is no {}; name the folder of a run", path);
  json value = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) throw_error<FormatError>("{} is no JSON", path);
  return value;
}

StorePointer pointer_of(const std::string& run) {
  std::optional<StorePointer> pointer = read_store_pointer(run);
  if (!pointer) {
    throw_error<ConfigError>(
        "export: {} has no {}: it is not the folder of a run with a store; name "
        "one that strata train was given as --run",
        run, kStorePointerFile);
  }
  return *std::move(pointer);
}

// Besides those that store.json names.
std::vector<std::string> directories_of(const Options& options) {
  std::vector<std::string> directories = {options.arguments[0]};
  if (options.nvme.empty()) return directories;
  for (const io::VolumeDirectory& directory : io::parse_directories(options.nvme)) {
    directories.push_back(directory.path);
  }
  return directories;
}

PortableFormat format_of(const Options& options, const store::Manifest& manifest) {
  PortableFormat format;
  format.content =
      options.with_optimizer ? PortableContent::training_state : PortableContent::weights;
  format.weights = options.export_dtype == "auto"   ? manifest.dtypes.weights
                   : options.export_dtype == "bf16" ? Dtype::bf16
                                                    : Dtype::f32;
  format.file_bytes_max = options.max_shard_size;
  return format;
}

// The ranges of all ranks' shards of the commit; returns their checksums.
std::vector<std::vector<std::uint64_t>> copy_store(OpenedStore& store, std::int64_t sequence,
                                                   const PortableLayout& layout,
                                                   const std::string& folder) {
  const std::int64_t memory_bytes = portable_copy_bytes(store.manifest());
  Budget budget("host memory", memory_bytes);
  const AlignedBuffer memory(budget, "export", memory_bytes);
  const std::atomic<bool> never_stopped{false};
  PortableFiles files(folder, file_names(layout), PortableFiles::Access::write);
  for (int file = 0; file < std::ssize(layout.files()); ++file) {
    files.write_header(file, layout.files()[static_cast<std::size_t>(file)]);
  }
  std::vector<std::vector<std::uint64_t>> checksums(static_cast<std::size_t>(store.shards()));
  for (const auto& [rank, shard] : store.kept()) {
    copy_shard(layout, {shard.reader, shard.commit(sequence).table, rank}, files, memory.span(),
               never_stopped, checksums[static_cast<std::size_t>(rank)]);
  }
  files.sync();
  return checksums;
}

void report(const Options& options, const PortableLayout& layout, std::int64_t step) {
  std::int64_t bytes = 0;
  for (const PortableFile& file : layout.files()) bytes += file.bytes;
  const std::string& folder = options.arguments[1];
  if (options.json) {
    fmt::print("{}\n", json_text(json{{"folder", folder}, {"step", step}, {"bytes", bytes}}));
  } else {
    fmt::print("wrote step {} of {} to {}: {} in {}{}\n", step, options.arguments[0], folder,
               format_bytes(bytes), name_of(layout.format().weights),
               options.with_optimizer ? ", with optimizer" : "");
  }
}

}  // namespace

int run_export(const Options& options) {
  const std::string& run = options.arguments[0];
  const std::string target = folder_path(options.arguments[1]);
  if (fs::exists(target)) {
    throw_error<ConfigError>("export: {} exists already; choose another folder", target);
  }
  const StorePointer pointer = pointer_of(run);
  PortableOrigin origin;
  origin.options = read_json(run + "/" + kRunOptionsFile);
  origin.arithmetic = read_json(run + "/" + kArithmeticFile);
  origin.world_size = pointer.world_size();
  origin.run = run_name(run);
  const std::string kept_model = kept_model_folder(run);
  const models::ModelConfig model =
      resolve_model(origin.options.value("model", ""), kept_model).config;

  const auto comm = comm::make_single_rank_communicator();
  io::EngineOptions engine;
  engine.kind = io::choose_engine(io::EngineKind::automatic).kind;
  OpenedStore store(pointer, directories_of(options), engine, std::nullopt, *comm);
  const std::optional<store::Superblock> commit = store.commit();
  if (!commit) throw_error<ConfigError>("export: {} has no checkpoint yet", run);
  store.share();
  origin.step = commit->step;
  origin.snapshot = commit->snapshot;

  const PortableLayout layout(store.manifest(), format_of(options, store.manifest()));
  remove_partial_folders(fs::path(target).parent_path());
  PortableFolder folder(target);
  const auto checksums = copy_store(store, commit->sequence, layout, folder.temporary_path());
  publish_portable(folder, layout, origin,
                   exported_model_files(model, layout.format().weights, kept_model), checksums,
                   ExistingFolder::refuse);
  report(options, layout, origin.step);
  return 0;
}

}  // namespace strata::engine
