#include "engine/portable/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/error.h"
#include "models/hf_tensors.h"
#include "models/safetensors.h"

namespace strata::engine {

namespace {

std::string_view suffix_of(PortableState state) {
  switch (state) {
    case PortableState::weight:
      break;  // in the model's files, without one
    case PortableState::master:
      return ".master";
    case PortableState::moment1:
      return ".moment1";
    case PortableState::moment2:
      return ".moment2";
    case PortableState::scales1:
      return ".moment1.scales";
    case PortableState::scales2:
      return ".moment2.scales";
  }
  STRATA_CHECK(false);
}

std::int64_t bytes_of(const PortableTensor& tensor) {
  return tensor.elements() * element_bytes(tensor);
}

}  // namespace

bool is_kept(PortableState state, const PortableParameter& parameter,
             const offload::StateDtypes& dtypes) {
  if (state == PortableState::weight || state == PortableState::master) return true;
  const bool is_second = state == PortableState::moment2 || state == PortableState::scales2;
  return parameter.has_moments && (!is_second || dtypes.moment_count == 2) &&
         (!is_scales(state) || dtypes.moments == MomentFormat::int8);
}

std::int64_t element_bytes(const PortableTensor& tensor) {
  if (tensor.dtype == "F32") return 4;
  if (tensor.dtype == "BF16" || tensor.dtype == "F16") return 2;
  if (tensor.dtype == "I8") return 1;
  throw_error<FormatError>("tensor '{}' is of type {}, not F32, BF16, F16 or I8", tensor.name,
                           tensor.dtype);
}

std::string optimizer_tensor_name(const std::string& parameter, PortableState state) {
  return parameter + std::string(suffix_of(state));
}

const char* dtype_of(PortableState state, MomentFormat moments) {
  if (state == PortableState::master || is_scales(state)) return "F32";
  switch (moments) {
    case MomentFormat::f32:
      return "F32";
    case MomentFormat::bf16:
      return "BF16";
    case MomentFormat::int8:
      return "I8";
  }
  STRATA_CHECK(false);
}

PortableLayout::PortableLayout(const store::Manifest& manifest, const PortableFormat& format)
    : format_(format), dtypes_(manifest.dtypes), parameters_(manifest) {
  indices_.resize(parameters_.all().size());
  for (auto& of_parameter : indices_) of_parameter.fill(kNone);
  const auto parameters = static_cast<int>(parameters_.all().size());
  for (int p = 0; p < parameters; ++p) add(p, PortableState::weight);
  place(kModelFile, 0);
  model_files_ = files_.size();

  if (format_.content == PortableContent::weights) return;
  const std::size_t model_tensors = tensors_.size();
  for (const char* const dtype : {"F32", "BF16", "I8"}) {
    for (int p = 0; p < parameters; ++p) {
      for (const PortableState state : kPortableStates) {
        if (state == PortableState::weight ||
            dtype_of(state, dtypes_.moments) != std::string(dtype))
          continue;
        add(p, state);
      }
    }
  }
  place(kOptimizerFile, model_tensors);
}

void PortableLayout::add(int index, PortableState state) {
  const PortableParameter& parameter = parameters_.all()[static_cast<std::size_t>(index)];
  if (!is_kept(state, parameter, dtypes_)) return;
  PortableTensor tensor;
  tensor.rows = parameter.rows;
  tensor.columns = parameter.columns;
  if (state == PortableState::weight) {
    models::HfTensor hf = models::hf_tensor(parameter.name, parameter.rows, parameter.columns);
    tensor.name = std::move(hf.name);
    tensor.dtype = format_.weights == Dtype::f32 ? "F32" : "BF16";
    tensor.shape = std::move(hf.shape);
    tensor.transposed = hf.transposed;
  } else {
    tensor.name = optimizer_tensor_name(parameter.name, state);
    tensor.dtype = dtype_of(state, dtypes_.moments);
    tensor.shape = models::tensor_shape(parameter.name, parameter.rows, parameter.columns);
  }
  if (is_scales(state)) {
    tensor.rows = 1;
    tensor.columns = parameter.scales;
    tensor.shape = {parameter.scales};
  }
  indices_[static_cast<std::size_t>(index)][static_cast<std::size_t>(state)] =
      static_cast<int>(tensors_.size());
  tensors_.push_back(std::move(tensor));
}

// Deals the tensors from `first_tensor` on to files, in their order.
void PortableLayout::place(std::string_view file, std::size_t first_tensor) {
  std::vector<std::vector<std::size_t>> shards;
  std::int64_t bytes = 0;
  for (std::size_t t = first_tensor; t < tensors_.size(); ++t) {
    const std::int64_t more = bytes_of(tensors_[t]);
    if (shards.empty() || bytes + more > format_.file_bytes_max) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(t);
    bytes += more;
  }
  for (std::size_t s = 0; s < shards.size(); ++s) {
    models::SafetensorsHeader header;
    header.metadata["format"] = "pt";
    for (const std::size_t t : shards[s]) {
      header.tensors.push_back({tensors_[t].name, tensors_[t].dtype, tensors_[t].shape, 0, 0});
    }
    const std::int64_t data_bytes = models::place_tensors(header.tensors);
    std::string encoded = models::encode_safetensors(header);
    for (std::size_t i = 0; i < shards[s].size(); ++i) {
      PortableTensor& tensor = tensors_[shards[s][i]];
      tensor.file = static_cast<int>(files_.size());
      tensor.offset_bytes = std::ssize(encoded) + header.tensors[i].offset_bytes;
    }
    const bool alone = file == kModelFile && shards.size() == 1;
    const std::string name =
        alone ? fmt::format("{}.safetensors", file)
              : fmt::format("{}-{:05}-of-{:05}.safetensors", file, s + 1, shards.size());
    const std::int64_t file_bytes = std::ssize(encoded) + data_bytes;
    files_.push_back({name, std::move(encoded), file_bytes});
  }
}

std::string PortableLayout::model_index() const {
  if (model_files_ == 1) return "";
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  std::int64_t total_bytes = 0;
  for (const PortableTensor& tensor : tensors_) {
    if (static_cast<std::size_t>(tensor.file) >= model_files_) continue;
    weight_map[tensor.name] = files_[static_cast<std::size_t>(tensor.file)].name;
    total_bytes += bytes_of(tensor);
  }
  const nlohmann::ordered_json json = {{"metadata", {{"total_size", total_bytes}}},
                                       {"weight_map", std::move(weight_map)}};
  return json.dump(2) + "\n";
}

}  // namespace strata::engine
