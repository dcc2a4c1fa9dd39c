#include "engine/portable/hf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "engine/plan/model_source.h"
#include "kernels/base/error.h"
#include "kernels/base/system_file.h"
#include "models/hf_tensors.h"
#include "models/json_value.h"
#include "models/safetensors.h"
#include "models/safetensors_values.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kPickle = "pytorch_model.bin";
constexpr std::size_t kProblemsShown = 20;

// The files of the tensors, none of which may lie outside of the folder.
std::map<std::string, std::string> parse_index(std::string_view text) {
  const auto json = nlohmann::json::parse(text, models::limit_depth, /*allow_exceptions=*/false);
  const nlohmann::json& weight_map = models::value_of(json, "weight_map");
  if (!weight_map.is_object()) throw FormatError("it has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : weight_map.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos) {
      throw_error<FormatError>("tensor '{}' is in '{}', which is no safetensors file beside it",
                               tensor, name);
    }
    files[tensor] = name;
  }
  if (files.empty()) throw FormatError("its weight_map is empty");
  return files;
}

std::map<std::string, std::string> read_index(const std::string& path, std::string_view text) {
  try {
    return parse_index(text);
  } catch (const FormatError& error) {
    throw_error<FormatError>("{}: {}", path, error.what());
  }
}

std::string download_advice(const std::string& folder) {
  const std::string name = hub_name_of(folder);
  return name.empty() ? "" : "; download the rest of it: hf download " + name;
}

void require_files(const std::string& folder, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    if (fs::exists(folder + "/" + name)) continue;
    throw_error<ConfigError>("--model {}: {} is missing, which {} names{}", folder, name,
                             kIndexFile, download_advice(folder));
  }
}

[[noreturn]] void refuse_folder(const std::string& folder) {
  if (fs::exists(folder + "/" + kPickle)) {
    throw_error<ConfigError>(
        "--model {}: it has {} and no {}; convert it, with transformers: "
        "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OTHER)",
        folder, kPickle, kSingleFile);
  }
  throw_error<ConfigError>("--model {}: it has neither {} nor {}{}", folder, kSingleFile,
                           kIndexFile, download_advice(folder));
}

}  // namespace

HfReader::HfReader(std::string folder, const std::vector<PortableParameter>& parameters)
    : folder_(std::move(folder)) {
  if (fs::exists(folder_ + "/" + kSingleFile)) {
    open({}, {kSingleFile});
  } else if (const auto text = read_system_file(folder_ + "/" + kIndexFile)) {
    const FileOfTensor files = read_index(folder_ + "/" + kIndexFile, *text);
    std::set<std::string> names;
    for (const auto& [tensor, file] : files) names.insert(file);
    require_files(folder_, names);
    open(files, {names.begin(), names.end()});
  } else {
    refuse_folder(folder_);
  }
  match(parameters);
  if (problems_.empty()) return;
  const std::size_t shown = std::min(problems_.size(), kProblemsShown);
  throw_error<ConfigError>(
      "--model {}: {}{}", folder_,
      fmt::join(problems_.begin(), problems_.begin() + std::ptrdiff_t(shown), "; "),
      shown < problems_.size() ? fmt::format("; and {} more", problems_.size() - shown) : "");
}

void HfReader::open(const FileOfTensor& files, const std::vector<std::string>& names) {
  names_ = names;
  files_.emplace(folder_, names, PortableFiles::Access::read);
  for (int file = 0; file < static_cast<int>(names.size()); ++file) add_tensors(file, files);
  for (const auto& [tensor, file] : files) {
    const auto found = found_.find(std::string(models::without_hf_prefix(tensor)));
    if (found == found_.end() || names_[static_cast<std::size_t>(found->second.file)] != file) {
      problems_.push_back(
          fmt::format("'{}' is not in {}, where {} has it", tensor, file, kIndexFile));
    }
  }
}

void HfReader::add_tensors(int file, const FileOfTensor& files) {
  const std::string& path = files_->path(file);
  const std::int64_t file_bytes = files_->bytes(file);
  try {
    const std::int64_t length_bytes = std::min(file_bytes, models::kSafetensorsLengthBytes);
    const std::int64_t data =
        models::safetensors_data_offset(files_->read_bytes(file, 0, length_bytes), file_bytes);
    const std::vector<std::byte> json = files_->read_bytes(file, models::kSafetensorsLengthBytes,
                                                           data - models::kSafetensorsLengthBytes);
    const std::string_view text(reinterpret_cast<const char*>(json.data()), json.size());
    for (const models::SafetensorsTensor& tensor :
         models::decode_safetensors(text, file_bytes - data).tensors) {
      if (!files.empty() && !files.contains(tensor.name)) {
        problems_.push_back(fmt::format("'{}' of {} is not in {}", tensor.name,
                                        names_[static_cast<std::size_t>(file)], kIndexFile));
      }
      const bool is_new =
          found_
              .try_emplace(std::string(models::without_hf_prefix(tensor.name)),
                           PortableTensor{tensor.name, tensor.dtype, tensor.shape, 0, 0, false,
                                          file, data + tensor.offset_bytes})
              .second;
      if (!is_new) problems_.push_back(fmt::format("'{}' is there twice", tensor.name));
    }
  } catch (const FormatError& error) {
    throw_error<FormatError>("{}: {}", path, error.what());
  }
}

// Of two tied tensors either may be stored.
void HfReader::find_token_table(const std::vector<PortableParameter>& parameters) {
  const std::string head(models::kHeadWeight);
  const auto table =
      std::ranges::find_if(parameters, models::is_token_table, &PortableParameter::name);
  const bool is_tied =
      std::ranges::find(parameters, head, &PortableParameter::name) == parameters.end();
  if (!is_tied || table == parameters.end() || found_.contains(table->name)) return;
  auto stored = found_.extract(head);
  if (stored.empty()) return;
  stored.key() = table->name;
  found_.insert(std::move(stored));
}

void HfReader::match(const std::vector<PortableParameter>& parameters) {
  find_token_table(parameters);
  for (const PortableParameter& parameter : parameters) {
    take(parameter.name, parameter.rows, parameter.columns);
  }
  take_tied_head();
  for (const auto& [name, tensor] : found_) {
    if (models::is_hf_buffer(name)) continue;
    problems_.push_back(fmt::format("'{}' is no tensor of this model", tensor.name));
  }
  found_.clear();
}

void HfReader::take(const std::string& parameter, std::int64_t rows, std::int64_t columns) {
  const models::HfTensor wanted = models::hf_tensor(parameter, rows, columns);
  const auto found = found_.find(parameter);
  if (found == found_.end()) {
    problems_.push_back(fmt::format("'{}' is missing", wanted.name));
    return;
  }
  PortableTensor tensor = std::move(found->second);
  found_.erase(found);
  if (tensor.shape != wanted.shape) {
    problems_.push_back(fmt::format("'{}' is ({}) and not ({})", tensor.name,
                                    fmt::join(tensor.shape, ", "), fmt::join(wanted.shape, ", ")));
  }
  if (!models::is_widened(tensor.dtype)) {
    problems_.push_back(
        fmt::format("'{}' is of type {}; supported: F32, F16, BF16", tensor.name, tensor.dtype));
  }
  tensor.rows = rows;
  tensor.columns = columns;
  tensor.transposed = wanted.transposed;
  tensors_.emplace(parameter, std::move(tensor));
}

void HfReader::take_tied_head() {
  const auto found = found_.find(std::string(models::kHeadWeight));
  const auto table = std::ranges::find_if(
      tensors_, [](const auto& tensor) { return models::is_token_table(tensor.first); });
  if (found == found_.end() || table == tensors_.end()) return;
  if (found->second.shape != table->second.shape || !models::is_widened(found->second.dtype)) {
    problems_.push_back(fmt::format("'{}' is not as '{}', which it is tied to by config.json",
                                    models::kHeadWeight, table->second.name));
  }
  tied_head_ = std::move(found->second);
  tied_head_->rows = table->second.rows;
  tied_head_->columns = table->second.columns;
  found_.erase(found);
}

std::string HfReader::description() const {
  std::set<std::string> dtypes;
  for (const auto& [name, tensor] : tensors_) {
    std::string dtype = tensor.dtype;
    std::ranges::transform(dtype, dtype.begin(), [](unsigned char c) { return std::tolower(c); });
    dtypes.insert(std::move(dtype));
  }
  return fmt::format("{}, {}",
                     names_.size() == 1 ? names_.front() : fmt::format("{} files", names_.size()),
                     fmt::join(dtypes, " and "));
}

void HfReader::read(const PortableParameter& parameter, std::int64_t first,
                    std::span<float> values) {
  read(tensors_.at(parameter.name), first, values);
}

void HfReader::read_tied_head(std::int64_t first, std::span<float> values) {
  read(tied_head_.value(), first, values);
}

void HfReader::read(const PortableTensor& tensor, std::int64_t first, std::span<float> values) {
  const std::int64_t elements = std::ssize(values);
  buffer_.resize(static_cast<std::size_t>(elements * element_bytes(tensor)));
  files_->read(tensor, first, first + elements, buffer_);
  models::widen(tensor.dtype, buffer_, values);
}

std::string HfReader::place_of(const PortableParameter& parameter, std::int64_t element) const {
  const PortableTensor& tensor = tensors_.at(parameter.name);
  if (tensor.shape.size() == 1) return fmt::format("'{}' [{}]", tensor.name, element);
  std::int64_t row = element / tensor.columns;
  std::int64_t column = element % tensor.columns;
  if (tensor.transposed) std::swap(row, column);
  return fmt::format("'{}' [{}, {}]", tensor.name, row, column);
}

}  // namespace strata::engine
