#include "models/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "models/json_value.h"

namespace strata::models {

using nlohmann::json;

namespace {

constexpr std::uint64_t kJsonBytesMax = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct DtypeBits {
  std::string_view name;
  std::int64_t bits;
};
constexpr DtypeBits kDtypes[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    {"I64", 64},    {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U64", 64},
    {"U32", 32},    {"U16", 16},    {"U8", 8},      {"BOOL", 8},    {"C64", 64},
};

std::int64_t bytes_of(const SafetensorsTensor& tensor) {
  const auto dtype = std::ranges::find(kDtypes, tensor.dtype, &DtypeBits::name);
  if (dtype == std::end(kDtypes)) {
    throw_error<FormatError>("tensor '{}' has the unknown dtype '{}'", tensor.name, tensor.dtype);
  }
  std::int64_t bits = dtype->bits;
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) {
      throw_error<FormatError>("the shape [{}] of tensor '{}' overflows",
                               fmt::join(tensor.shape, ", "), tensor.name);
    }
  }
  if (bits % 8 != 0) {
    throw_error<FormatError>("tensor '{}' has {} bits, which are no whole bytes", tensor.name,
                             bits);
  }
  return bits / 8;
}

std::int64_t number(const json& value, const std::string& tensor) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    throw_error<FormatError>("tensor '{}' has a size or an offset that is no number or overflows",
                             tensor);
  }
  return value.get<std::int64_t>();
}

SafetensorsTensor tensor_from(const std::string& name, const json& value) {
  const auto member = [&](const char* key) -> const json& {
    if (!value.is_object() || !value.contains(key)) {
      throw_error<FormatError>("tensor '{}' has no {}", name, key);
    }
    return value[key];
  };
  SafetensorsTensor tensor;
  tensor.name = name;
  const json& dtype = member("dtype");
  const json& shape = member("shape");
  const json& offsets = member("data_offsets");
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw_error<FormatError>("tensor '{}' has no dtype, shape and two data_offsets", name);
  }
  tensor.dtype = dtype.get<std::string>();
  for (const json& size : shape) tensor.shape.push_back(number(size, name));
  tensor.offset_bytes = number(offsets[0], name);
  tensor.bytes = number(offsets[1], name) - tensor.offset_bytes;
  if (const std::int64_t bytes = bytes_of(tensor); bytes != tensor.bytes) {
    throw_error<FormatError>("tensor '{}' has {} bytes by its shape and {} by its offsets", name,
                             bytes, tensor.bytes);
  }
  return tensor;
}

std::map<std::string, std::string> metadata_from(const json& value) {
  if (!value.is_object()) throw_error<FormatError>("{} is no object", kMetadata);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw_error<FormatError>("'{}' of {} is no text", key, kMetadata);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

json parse_once_named(std::string_view text) {
  std::set<std::string> names;
  const auto check = [&](int depth, json::parse_event_t event, const json& value) {
    limit_depth(depth, event, value);
    if (depth == 1 && event == json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second) {
      throw_error<FormatError>("'{}' comes twice", value.get<std::string>());
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw_error<FormatError>("the header is no JSON: {}", error.what());
  }
}

}  // namespace

std::int64_t safetensors_data_offset(std::span<const std::byte> beginning,
                                     std::int64_t file_bytes) {
  if (file_bytes < kSafetensorsLengthBytes) {
    throw_error<FormatError>("{} bytes are too short for a safetensors header", file_bytes);
  }
  std::uint64_t json_bytes = 0;
  std::memcpy(&json_bytes, beginning.first(sizeof json_bytes).data(), sizeof json_bytes);
  if (json_bytes > kJsonBytesMax) {
    throw_error<FormatError>("a header of {} bytes is too large: at most {}", json_bytes,
                             kJsonBytesMax);
  }
  const std::int64_t offset = kSafetensorsLengthBytes + static_cast<std::int64_t>(json_bytes);
  if (offset > file_bytes) {
    throw_error<FormatError>("a header of {} bytes ends behind the end of the file, which has {}",
                             json_bytes, file_bytes);
  }
  return offset;
}

SafetensorsHeader decode_safetensors(std::string_view text, std::int64_t data_bytes) {
  const json root = parse_once_named(text);
  if (!root.is_object()) throw FormatError("the header is no JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name == kMetadata) {
      header.metadata = metadata_from(value);
    } else {
      header.tensors.push_back(tensor_from(name, value));
    }
  }
  std::ranges::stable_sort(header.tensors, {}, [](const SafetensorsTensor& tensor) {
    return std::pair(tensor.offset_bytes, tensor.bytes);
  });
  std::int64_t end = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.offset_bytes != end) {
      throw_error<FormatError>(
          "tensor '{}' begins at {} of the data, where the one before ends at "
          "{}: a hole or an overlap",
          tensor.name, tensor.offset_bytes, end);
    }
    end += tensor.bytes;
  }
  if (end != data_bytes) {
    throw_error<FormatError>("the tensors have {} bytes and the file has {} for them", end,
                             data_bytes);
  }
  return header;
}

std::int64_t place_tensors(std::span<SafetensorsTensor> tensors) {
  std::int64_t end = 0;
  for (SafetensorsTensor& tensor : tensors) {
    tensor.bytes = bytes_of(tensor);
    tensor.offset_bytes = end;
    end += tensor.bytes;
  }
  return end;
}

std::string encode_safetensors(const SafetensorsHeader& header) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root[kMetadata] = header.metadata;
  for (const SafetensorsTensor& tensor : header.tensors) {
    root[tensor.name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.offset_bytes, tensor.offset_bytes + tensor.bytes}}};
  }
  std::string text = root.dump();
  text.resize(static_cast<std::size_t>(round_up(std::ssize(text), 8)), ' ');
  const std::uint64_t json_bytes = text.size();
  STRATA_CHECK(json_bytes <= kJsonBytesMax, "a header of {} bytes", json_bytes);
  std::string out(sizeof json_bytes, '\0');
  std::memcpy(out.data(), &json_bytes, sizeof json_bytes);
  return out + text;
}

}  // namespace strata::models
