#include "engine/checkpoint/store_pointer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/plain_file.h"
#include "kernels/base/error.h"
#include "offload/store/file_header.h"

namespace strata::engine {
namespace {

constexpr int kFormatVersion = 1;

std::string pointer_path(const std::string& run_folder) {
  return (std::filesystem::path(run_folder) / kStorePointerFile).string();
}

StorePointer parse_pointer(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const int version = json.at("format_version").get<int>();
  if (version != kFormatVersion) {
    throw_error<FormatError>("it is of format version {}; this program reads {}", version,
                             kFormatVersion);
  }
  StorePointer pointer;
  json.at("run_id").get_to(pointer.run_id);
  store::parse_run_id(pointer.run_id);  // refuses what is none
  for (const nlohmann::json& rank : json.at("ranks")) {
    StoreOfRank& store = pointer.ranks.emplace_back();
    rank.at("host").get_to(store.host);
    rank.at("directories").get_to(store.directories);
    if (store.directories.empty()) throw FormatError("a rank has no directories");
  }
  if (pointer.ranks.empty()) throw FormatError("it names no ranks");
  return pointer;
}

}  // namespace

std::string text_of(const StorePointer& pointer) {
  nlohmann::ordered_json json = {{"format_version", kFormatVersion}, {"run_id", pointer.run_id}};
  for (const StoreOfRank& store : pointer.ranks) {
    json["ranks"].push_back({{"host", store.host}, {"directories", store.directories}});
  }
  try {
    return json.dump(2) + "\n";
  } catch (const nlohmann::json::type_error&) {  // replaced letters would find nothing
    throw ConfigError("--nvme or --run: a directory whose name is not UTF-8 text");
  }
}

StorePointer parse_store_pointer(std::string_view text, const std::string& path) {
  try {
    return parse_pointer(text);
  } catch (const nlohmann::json::exception& e) {
    throw_error<FormatError>("{}: it does not name a store: {}", path, e.what());
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", path, e.what());
  }
}

std::optional<StorePointer> read_store_pointer(const std::string& run_folder) {
  const std::string path = pointer_path(run_folder);
  const std::optional<std::string> text = io::read_file(path);
  if (!text) return std::nullopt;
  return parse_store_pointer(*text, path);
}

void replace_store_pointer(const std::string& run_folder, const StorePointer& pointer) {
  io::replace_file(pointer_path(run_folder), text_of(pointer));
}

void remove_store_pointer(const std::string& run_folder) {
  const std::string path = pointer_path(run_folder);
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw_error<IoError>("remove {}: {}", path, error.message());
  io::flush_directory(run_folder);
}

}  // namespace strata::engine
