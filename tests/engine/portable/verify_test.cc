#include "engine/portable/verify.h"

#include <filesystem>
#include <fstream>

#include "engine/portable/reader.h"
#include "tests/engine/portable/portable_machine.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

using test::error_text;
using test::mentions;

class PortableVerify : public ::testing::Test {
 protected:
  PortableVerify() {
    StoredModel({Dtype::bf16, Dtype::f32, MomentFormat::f32, 2}, 2).export_to(path_, {});
  }

  void damage(const std::string& file, std::int64_t offset) const {
    std::fstream stream(path_ + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(offset);
    const int byte = stream.get();
    stream.seekp(offset).put(static_cast<char>(byte ^ 1));
  }
  // Of an element of the tensor as the file has it, in whichever file it is.
  void damage_element(const std::string& name, std::int64_t element) const {
    const PortableReader reader(path_);
    const PortableTensor& tensor = *reader.find(name);
    damage(reader.index().files[static_cast<std::size_t>(tensor.file)].name,
           tensor.offset_bytes + element * element_bytes(tensor));
  }
  template <typename E>
  std::string refusal() const {
    return error_text<E>([&] { verify_portable(path_); });
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("p");
};

TEST_F(PortableVerify, WhatIsIntactIsReadWhole) {
  const PortableVerification result = verify_portable(path_);
  EXPECT_TRUE(result.damage.empty());
  EXPECT_EQ(result.step, 7);
  // By hand: 24,912 elements as bf16 weights and f32 masters; two f32 moments, but of ln_f's 144.
  constexpr std::int64_t kElements = 123 * 72 + 72 + 216 * 72 + 216 + 144;
  EXPECT_EQ(result.bytes, kElements * (2 + 4) + (kElements - 144) * (4 + 4));
}

TEST_F(PortableVerify, EveryDamagedRangeIsNamed) {
  damage_element("h.0.attn.c_attn.weight.moment1", 10'000);
  // (in, out) in the file: row 70 of 72, column 3, which is element 3 * 72 + 70 of ours.
  damage_element("transformer.h.0.attn.c_attn.weight", 70 * 216 + 3);
  damage_element("ln_f.bias.master", 71);
  const PortableVerification result = verify_portable(path_);
  ASSERT_EQ(result.damage.size(), 3u);
  // Rank 1 of 2 begins at element 8,192 of the unit, which is 8,064 of the matrix.
  EXPECT_TRUE(mentions(result.damage[0],
                       "elements [8064, 12160) of tensor 'h.0.attn.c_attn.weight.moment1' in " +
                           path_ + "/optimizer-00001-of-00001.safetensors"))
      << result.damage[0];
  EXPECT_TRUE(mentions(result.damage[1], "elements [0, 72) of tensor 'ln_f.bias.master'"));
  EXPECT_TRUE(mentions(result.damage[2],
                       "elements [0, 3968) of tensor 'transformer.h.0.attn.c_attn.weight'"));
}

TEST_F(PortableVerify, ADamagedHeaderIsNamed) {
  damage("model.safetensors", 20);
  EXPECT_TRUE(mentions(refusal<FormatError>(), "model.safetensors: the header is damaged"));
}

TEST_F(PortableVerify, AShortFileIsNamed) {
  std::filesystem::resize_file(path_ + "/model.safetensors", 1000);
  EXPECT_TRUE(mentions(refusal<FormatError>(), "model.safetensors has 1000 bytes, not "));
}

TEST_F(PortableVerify, AMissingFileIsNamed) {
  std::filesystem::remove(path_ + "/optimizer-00001-of-00001.safetensors");
  EXPECT_TRUE(mentions(refusal<IoError>(), "open " + path_ + "/optimizer-00001-of-00001"));
}

TEST_F(PortableVerify, ANewerFormatIsSaid) {
  auto index = nlohmann::json::parse(test::contents_of(path_ + "/strata.json"));
  index["version"] = 2;
  std::ofstream(path_ + "/strata.json") << index;
  EXPECT_TRUE(mentions(refusal<FormatError>(), "of format version 2; this program reads 1"));
}

TEST_F(PortableVerify, AnIndexThatContradictsItselfIsRefused) {
  using nlohmann::json;
  const json index = json::parse(test::contents_of(path_ + "/strata.json"));
  const std::pair<const char*, void (*)(json&)> kDamages[] = {
      {"it is no strata", [](json& i) { i["format"] = "other"; }},
      {"step", [](json& i) { i.erase("step"); }},
      {"is no count", [](json& i) { i["step"] = -1; }},
      {"is unknown", [](json& i) { i["moments"] = "f16"; }},
      {"is no name of a file", [](json& i) { i["files"][0]["name"] = "../model.safetensors"; }},
      {"no checksum", [](json& i) { i["files"][0]["header_checksum"] = "12"; }},
      {"ends at", [](json& i) { i["tensors"]["ln_f.bias.master"]["ranges"][0][0] = 73; }},
      {"end at 0 of 72",
       [](json& i) { i["tensors"]["ln_f.bias.master"]["ranges"] = json::array(); }},
      {"overflows",
       [](json& i) {
         i["tensors"]["ln_f.bias.master"]["rows"] = INT64_MAX;
         i["tensors"]["ln_f.bias.master"]["columns"] = 2;
       }},
      {"is not as strata.json has it", [](json& i) { i["tensors"].erase("ln_f.bias.master"); }},
      {"no file has tensor",
       [](json& i) { i["tensors"]["other.master"] = i["tensors"]["ln_f.bias.master"]; }},
  };
  for (const auto& [named, make] : kDamages) {
    json damaged = index;
    make(damaged);
    std::ofstream(path_ + "/strata.json") << damaged;
    EXPECT_TRUE(mentions(refusal<FormatError>(), named)) << named;
  }
}

}  // namespace
}  // namespace strata::engine::testing
