// Safetensors files: their headers, in and out. Pure functions on bytes; whoever calls them moves
// the tensors' data.
//
//   u64, little endian: N, at most 100,000,000 │ N bytes of JSON │ data
//
// The JSON gives each tensor a dtype, a shape and a range of the data. Sorted by offset the ranges
// follow each other from 0 to the end of the file, without hole or overlap; scalars (no
// dimension) and tensors without elements are legal. Decoding trusts nothing and throws
// FormatError, without the file's name.
//
// Source: github.com/huggingface/safetensors, README and reference reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::models {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I8", … as in the file
  std::vector<std::int64_t> shape;
  std::int64_t offset_bytes = 0;  // in the data
  std::int64_t bytes = 0;

  friend bool operator==(const SafetensorsTensor&, const SafetensorsTensor&) = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // by offset
  std::map<std::string, std::string> metadata;
};

inline constexpr std::int64_t kSafetensorsLengthBytes = 8;

// Bytes from the file's begin to its data, from the first kSafetensorsLengthBytes of a file of
// `file_bytes` (`beginning` is shorter if the file is).
std::int64_t safetensors_data_offset(std::span<const std::byte> beginning, std::int64_t file_bytes);

// `json`: what lies between the length and the data; `data_bytes`: what follows it in the file.
SafetensorsHeader decode_safetensors(std::string_view json, std::int64_t data_bytes);

// Gives the tensors bytes and offsets, one after the other in their order; returns the bytes of
// all.
std::int64_t place_tensors(std::span<SafetensorsTensor> tensors);

// Length and JSON, padded with spaces so that the data begins at a multiple of 8.
std::string encode_safetensors(const SafetensorsHeader& header);

}  // namespace strata::models
