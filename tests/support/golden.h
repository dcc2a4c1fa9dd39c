// Golden: reader of the files in tests/golden (see the README there). For tests only: a missing
// file or name throws, which fails the test that asked.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace strata::testing {

class Golden {
 public:
  // "gpt2_tiny": the stem of the two files.
  explicit Golden(const std::string& stem) {
    const std::string path = std::string(STRATA_SOURCE_DIR) + "/tests/golden/" + stem;
    index_ = nlohmann::json::parse(read(path + ".json"));
    const std::string bytes = read(path + ".bin");
    floats_.resize(bytes.size() / sizeof(float));
    integers_.resize(floats_.size());
    std::memcpy(floats_.data(), bytes.data(), floats_.size() * sizeof(float));
    std::memcpy(integers_.data(), bytes.data(), integers_.size() * sizeof(float));
  }

  std::span<const float> get(const std::string& name) const {
    return std::span(floats_).subspan(first_word(name, "f32"), elements(name));
  }
  std::span<const std::int32_t> get_i32(const std::string& name) const {
    return std::span(integers_).subspan(first_word(name, "i32"), elements(name));
  }
  std::vector<std::int64_t> shape(const std::string& name) const {
    return entry(name).at("shape").get<std::vector<std::int64_t>>();
  }
  bool contains(const std::string& name) const { return index_.at("tensors").contains(name); }

  // "config" and "adamw".
  const nlohmann::json& section(const std::string& name) const { return index_.at(name); }

 private:
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  const nlohmann::json& entry(const std::string& name) const {
    return index_.at("tensors").at(name);
  }
  std::size_t elements(const std::string& name) const {
    std::size_t product = 1;
    for (const std::int64_t extent : shape(name)) product *= static_cast<std::size_t>(extent);
    return product;
  }
  std::size_t first_word(const std::string& name, const std::string& dtype) const {
    if (entry(name).at("dtype") != dtype) throw std::runtime_error(name + " is not " + dtype);
    return entry(name).at("offset").get<std::size_t>() / sizeof(float);
  }

  nlohmann::json index_;
  std::vector<float> floats_;  // the data, read as either type
  std::vector<std::int32_t> integers_;
};

}  // namespace strata::testing
