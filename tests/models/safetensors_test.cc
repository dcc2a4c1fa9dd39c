#include "models/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::models {
namespace {

using test::error_text;
using test::mentions;

SafetensorsHeader decode_file(std::string_view file) {
  const std::int64_t offset =
      safetensors_data_offset(std::as_bytes(std::span(file)), std::ssize(file));
  return decode_safetensors(file.substr(8, static_cast<std::size_t>(offset) - 8),
                            std::ssize(file) - offset);
}

std::string file_of(std::string_view json, std::size_t data_bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(json.size());
  file[1] = static_cast<char>(json.size() >> 8);
  return file.append(json).append(data_bytes, 'x');
}

// The reference reader's answer and what ours says for it.
const std::map<std::string, std::string> kErrors = {
    {"MetadataIncompleteBuffer", "the file has"},
    {"HeaderTooLarge", "too large"},
    {"HeaderTooSmall", "too short"},
    {"InvalidHeaderLength", "behind the end"},
    {"InvalidHeader", "no JSON"},
    {"InvalidHeaderDeserialization", "no JSON"},
    {"TensorInvalidInfo", "by its shape"},
    {"ValidationOverflow", "overflows"},
    {"InvalidOffset", "an overlap"},
};

TEST(Safetensors, AnswersEveryConformanceFileAsTheReferenceDoes) {
  const std::filesystem::path folder =
      std::filesystem::path(STRATA_SOURCE_DIR) / "../shared/data/safetensors";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const auto manifest = nlohmann::json::parse(test::contents_of(folder / "manifest.json"));
  EXPECT_GE(manifest.size(), 19u);
  for (const auto& entry : manifest) {
    const std::string name = entry["file"];
    const std::string expected = entry["expect"];
    const std::string file = test::contents_of(folder / name);
    if (expected.starts_with("ok")) {
      EXPECT_NO_THROW(decode_file(file)) << name;
    } else {
      const std::string text = error_text<FormatError>([&] { decode_file(file); });
      EXPECT_TRUE(mentions(text, kErrors.at(expected))) << name << ": " << text;
    }
  }
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const auto header = decode_file(file_of(
      R"({"b":{"dtype":"F32","shape":[],"data_offsets":[6,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]},)"
      R"("z":{"dtype":"I8","shape":[5,0],"data_offsets":[6,6]}})",
      10));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0], (SafetensorsTensor{"a", "BF16", {3, 1}, 0, 6}));
  EXPECT_EQ(header.tensors[1], (SafetensorsTensor{"z", "I8", {5, 0}, 6, 0}));
  EXPECT_EQ(header.tensors[2], (SafetensorsTensor{"b", "F32", {}, 6, 4}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, WhatContradictsItselfIsNamed) {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "a hole"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "unknown dtype 'F31'"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "no number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "no number"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "by its offsets"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "no data_offsets"},
      {R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "whole bytes"},
      {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":1})", "comes twice"},
      {R"({"__metadata__":{"format":1}})", "no text"},
      {R"([])", "no JSON object"},
      {R"({"a":7})", "no dtype"},
  };
  for (const auto& [json, named] : kWrong) {
    const std::string text = error_text<FormatError>([&] { decode_file(file_of(json, 4)); });
    EXPECT_TRUE(mentions(text, named)) << json << ": " << text;
  }
  const std::string nested = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_PRED2(mentions, error_text<FormatError>([&] { decode_file(file_of(nested, 4)); }),
               "nested deeper than 100");
}

TEST(Safetensors, WrittenHeadersReadBackAndAlignTheData) {
  for (const std::size_t length : {1u, 2u, 5u, 8u}) {
    SafetensorsHeader header{{{std::string(length, 'n'), "F32", {2, 3}, 0, 0},
                              {"v", "I8", {7}, 0, 0},
                              {"s", "BF16", {}, 0, 0}},
                             {{"format", "pt"}}};
    EXPECT_EQ(place_tensors(header.tensors), 24 + 7 + 2);
    const std::string encoded = encode_safetensors(header);
    EXPECT_EQ(encoded.size() % 8, 0u);
    const SafetensorsHeader decoded = decode_file(encoded + std::string(33, 'x'));
    EXPECT_EQ(decoded.tensors, header.tensors);
    EXPECT_EQ(decoded.metadata, header.metadata);
  }
}

}  // namespace
}  // namespace strata::models
