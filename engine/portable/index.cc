#include "engine/portable/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/options/json_text.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"
#include "models/json_value.h"
#include "offload/store/checksum.h"

namespace strata::engine {

using nlohmann::json;

namespace {

constexpr const char* kFormatName = "strata portable checkpoint";
constexpr MomentFormat kMomentFormats[] = {MomentFormat::f32, MomentFormat::bf16,
                                           MomentFormat::int8};
constexpr const char* kContents[] = {"weights", "training state"};  // by PortableContent

std::string hex(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

json to_json(const store::Snapshot& snapshot) {
  return {{"data_position", snapshot.data_position},
          {"schedule_step", snapshot.schedule_step},
          {"optimizer_step", snapshot.optimizer_step},
          {"skipped_in_a_row", snapshot.skipped_in_a_row},
          {"random_state", snapshot.random_state}};
}

json to_json(const PortableIndexTensor& tensor) {
  json ranges = json::array();
  for (const PortableRange& range : tensor.ranges) {
    ranges.push_back({range.last, hex(range.checksum)});
  }
  return {{"rows", tensor.rows},
          {"columns", tensor.columns},
          {"transposed", tensor.transposed},
          {"ranges", std::move(ranges)}};
}

// What follows reads members of a JSON object; `at` throws json::exception for what is missing or
// of another type, which becomes a FormatError.
std::int64_t count(const json& object, const char* name) {
  const auto value = object.at(name).get<std::uint64_t>();
  if (!object.at(name).is_number_unsigned() || value > static_cast<std::uint64_t>(INT64_MAX)) {
    throw_error<FormatError>("'{}' is no count", name);
  }
  return static_cast<std::int64_t>(value);
}

std::uint64_t checksum_from(const json& value) {
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t checksum = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, checksum, 16);
  if (error != std::errc{} || stop != end || text.size() != 16) {
    throw_error<FormatError>("'{}' is no checksum of 16 hexadecimal digits", text);
  }
  return checksum;
}

store::Snapshot snapshot_from(const json& value) {
  return {count(value, "data_position"), count(value, "schedule_step"),
          count(value, "optimizer_step"), count(value, "skipped_in_a_row"),
          value.at("random_state").get<std::array<std::uint64_t, 4>>()};
}

PortableIndexTensor tensor_from(const std::string& name, const json& value) {
  PortableIndexTensor tensor{
      count(value, "rows"), count(value, "columns"), value.at("transposed").get<bool>(), {}};
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(tensor.rows, tensor.columns, &elements)) {
    throw_error<FormatError>("the size of tensor '{}' overflows", name);
  }
  std::int64_t end = 0;
  for (const json& range : value.at("ranges")) {
    const auto last = range.at(0).get<std::int64_t>();
    if (last <= end || last > elements) {
      throw_error<FormatError>(
          "a range of tensor '{}' ends at {}, behind one that ends at {} of {}", name, last, end,
          elements);
    }
    tensor.ranges.push_back({last, checksum_from(range.at(1))});
    end = last;
  }
  if (end != elements) {
    throw_error<FormatError>("the ranges of tensor '{}' end at {} of {} elements", name, end,
                             elements);
  }
  return tensor;
}

// A name in the folder, and no path out of it.
std::string file_name_from(const json& value) {
  auto name = value.get<std::string>();
  if (name.empty() || name.find('/') != std::string::npos || name == "..") {
    throw_error<FormatError>("'{}' is no name of a file", name);
  }
  return name;
}

PortableIndex index_from(const json& root) {
  if (root.at("format") != kFormatName) throw_error<FormatError>("it is no {}", kFormatName);
  if (const std::int64_t version = count(root, "version"); version != kPortableVersion) {
    throw_error<FormatError>("it is of format version {}; this program reads {}", version,
                             kPortableVersion);
  }
  PortableIndex index;
  index.origin.step = count(root, "step");
  index.origin.snapshot = snapshot_from(root.at("snapshot"));
  index.origin.world_size = static_cast<int>(count(root, "world_size"));
  index.origin.run = root.at("run").get<std::string>();
  const auto content = root.at("content").get<std::string>();
  index.content =
      content == kContents[0] ? PortableContent::weights : PortableContent::training_state;
  if (index.content == PortableContent::training_state) {
    index.origin.options = root.at("options");
    index.origin.arithmetic = root.at("arithmetic");
  }
  const auto moments = root.at("moments").get<std::string>();
  const auto* const format =
      std::ranges::find_if(kMomentFormats, [&](MomentFormat m) { return moments == name_of(m); });
  index.moment_count = static_cast<int>(count(root, "moment_count"));
  if (content != kContents[static_cast<std::size_t>(index.content)] ||
      format == std::end(kMomentFormats) || index.moment_count < 1 || index.moment_count > 2) {
    throw_error<FormatError>("it holds {} with {} moments in {}, which is unknown", content,
                             index.moment_count, moments);
  }
  index.moments = *format;
  for (const json& file : root.at("files")) {
    index.files.push_back({file_name_from(file.at("name")), count(file, "bytes"),
                           count(file, "header_bytes"), checksum_from(file.at("header_checksum"))});
  }
  for (const auto& [name, tensor] : root.at("tensors").items()) {
    index.tensors.emplace(name, tensor_from(name, tensor));
  }
  return index;
}

}  // namespace

std::uint64_t portable_checksum(const std::byte* data, std::int64_t bytes) {
  return store::checksum(data, bytes, 0);
}

std::string encode(const PortableIndex& index) {
  json files = json::array();
  for (const PortableIndexFile& file : index.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"header_bytes", file.header_bytes},
                     {"header_checksum", hex(file.header_checksum)}});
  }
  json tensors = json::object();
  for (const auto& [name, tensor] : index.tensors) tensors[name] = to_json(tensor);
  json root = {{"format", kFormatName},
               {"version", kPortableVersion},
               {"step", index.origin.step},
               {"snapshot", to_json(index.origin.snapshot)},
               {"world_size", index.origin.world_size},
               {"run", index.origin.run},
               {"content", kContents[static_cast<std::size_t>(index.content)]},
               {"moments", name_of(index.moments)},
               {"moment_count", index.moment_count},
               {"files", std::move(files)},
               {"tensors", std::move(tensors)}};
  if (index.content == PortableContent::training_state) {
    root["options"] = index.origin.options;
    root["arithmetic"] = index.origin.arithmetic;
  }
  return json_text(root, -1) + "\n";
}

PortableIndex decode_portable_index(std::string_view text) {
  try {
    return index_from(json::parse(text, models::limit_depth));
  } catch (const json::exception& error) {
    throw_error<FormatError>("it is not what this program writes: {}", error.what());
  }
}

void require_training_state(const PortableIndex& index, const std::string& folder) {
  if (index.content == PortableContent::training_state) return;
  throw_error<ConfigError>(
      "--resume-from {}: it holds weights only; export it with --with-optimizer", folder);
}

PortableIndex read_portable_index(const std::string& folder) {
  const std::string path = folder + "/" + kPortableIndexFile;
  const std::optional<std::string> text = io::read_file(path);
  if (!text) {
    throw_error<ConfigError>(
        "{} has no {}: it is no portable checkpoint, or one whose writing was cut short; give a "
        "folder that strata export or --checkpoint-to wrote",
        folder, kPortableIndexFile);
  }
  try {
    return decode_portable_index(*text);
  } catch (const FormatError& error) {
    throw_error<FormatError>("{}: {}", path, error.what());
  }
}

}  // namespace strata::engine
