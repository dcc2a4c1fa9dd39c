#include "engine/data/recorded_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/options/option_changes.h"
#include "engine/options/run_files.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

using nlohmann::json;

json checksum_json(const std::optional<std::uint64_t>& checksum) {
  return checksum ? json(fmt::format("xxh3-64:{:016x}", *checksum)) : json();
}

std::string text_of(const json& value) { return value.is_null() ? "none" : value.dump(); }

std::vector<std::string> differences(const json& recorded, const json& found) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : found.items()) {
    const json& before = recorded.at(name);
    if (before == value) continue;
    texts.push_back(fmt::format("{}: {}, now {}", name, text_of(before), text_of(value)));
  }
  return texts;
}

}  // namespace

json data_json(const DataDigest& digest) {
  return {{"tokens", digest.tokens},
          {"documents", digest.documents},
          {"ids", checksum_json(digest.ids)},
          {"mask", checksum_json(digest.mask)},
          {"document_starts", checksum_json(digest.document_starts)}};
}

void require_recorded_data(const Options& options, const DataDigest& digest) {
  if (!options.resume || allows_change(options, "data")) return;
  const std::string path = (std::filesystem::path(options.run) / kDataFile).string();
  const std::optional<std::string> text = io::read_file(path);
  if (!text) return;
  std::vector<std::string> changes;
  try {
    changes = differences(json::parse(*text), data_json(digest));
  } catch (const json::exception& e) {
    throw_error<FormatError>("'{}' is damaged: {}", path, e.what());
  }
  if (changes.empty()) return;
  throw_error<ConfigError>(
      "--data {}: it is not what the run was begun with ({}: {}), which would change what the run "
      "computes; give what it was, or --allow-change data",
      options.data, path, fmt::join(changes, ", "));
}

}  // namespace strata::engine
