// The files are what Hugging Face's libraries and our documentation say, read here without our
// reader.
#include "engine/portable/layout.h"

#include <filesystem>
#include <map>
#include <set>

#include "tests/engine/portable/portable_machine.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

using nlohmann::json;

constexpr offload::StateDtypes kBf16{Dtype::bf16, Dtype::f32, MomentFormat::f32, 2};

struct FileTensor {
  std::string file;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;

  template <typename T>
  T at(std::int64_t element) const {
    T value;
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(element) * sizeof(T), sizeof(T));
    return value;
  }
};

// Every tensor of every safetensors file of a folder.
std::map<std::string, FileTensor> tensors_in(const std::string& folder) {
  std::map<std::string, FileTensor> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string contents = test::contents_of(entry.path());
    std::uint64_t length = 0;
    std::memcpy(&length, contents.data(), sizeof length);
    EXPECT_EQ(length % 8, 0u);
    const json header = json::parse(contents.substr(8, length));
    EXPECT_EQ(header["__metadata__"]["format"], "pt");
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = tensor["data_offsets"][0];
      const std::size_t end = tensor["data_offsets"][1];
      const bool is_new =
          tensors
              .emplace(name, FileTensor{entry.path().filename(), tensor["dtype"], tensor["shape"],
                                        contents.substr(8 + length + begin, end - begin)})
              .second;
      EXPECT_TRUE(is_new) << name;
    }
  }
  return tensors;
}

class PortableWeights : public ::testing::TestWithParam<std::tuple<Dtype, Dtype, int>> {};

TEST_P(PortableWeights, AreInTheOrientationOfTransformers) {
  const auto [precision, exported, ranks] = GetParam();
  const test::TemporaryFolder folder;
  StoredModel({precision, Dtype::f32, MomentFormat::f32, 2}, ranks)
      .export_to(folder.path("m"), {PortableContent::weights, exported});
  const auto tensors = tensors_in(folder.path("m"));
  ASSERT_EQ(tensors.size(), 6u);
  const auto expect_value = [&](const FileTensor& tensor, std::int64_t at, const char* parameter,
                                std::int64_t element) {
    const float master = value_of(parameter, 0, element);
    if (exported == Dtype::f32) {
      ASSERT_EQ(tensor.at<float>(at), master) << parameter << " " << element;
    } else {
      // To nearest, ties away from zero.
      const auto rounded =
          static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(master) + 0x8000u) >> 16);
      ASSERT_EQ(tensor.at<std::uint16_t>(at), rounded) << parameter << " " << element;
    }
  };
  const FileTensor& matrix = tensors.at("transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(matrix.shape, (std::vector<std::int64_t>{72, 216}));  // (in, out)
  for (std::int64_t out = 0; out < 216; ++out) {
    for (std::int64_t in = 0; in < 72; ++in) {
      expect_value(matrix, in * 216 + out, kConv1d, out * 72 + in);
    }
  }
  const FileTensor& table = tensors.at("transformer.wte.weight");
  EXPECT_EQ(table.shape, (std::vector<std::int64_t>{123, 72}));
  for (std::int64_t i = 0; i < 123 * 72; ++i) expect_value(table, i, "wte.weight", i);
  const FileTensor& bias = tensors.at("transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(bias.shape, (std::vector<std::int64_t>{216}));
  for (std::int64_t i = 0; i < 216; ++i) expect_value(bias, i, "h.0.attn.c_attn.bias", i);
}

INSTANTIATE_TEST_SUITE_P(Precisions, PortableWeights,
                         ::testing::Values(std::tuple(Dtype::bf16, Dtype::bf16, 1),
                                           std::tuple(Dtype::bf16, Dtype::f32, 3),
                                           std::tuple(Dtype::f32, Dtype::bf16, 2),
                                           std::tuple(Dtype::f32, Dtype::f32, 3)));

TEST(PortableLayout, OptimizerTensorsAreOurs) {
  const test::TemporaryFolder folder;
  StoredModel({Dtype::bf16, Dtype::f32, MomentFormat::int8, 2}, 2).export_to(folder.path("m"), {});
  const auto tensors = tensors_in(folder.path("m"));
  // 6 weights, 6 masters, and of the 4 parameters that are not frozen two moments with scales.
  EXPECT_EQ(tensors.size(), 6u + 6u + 4 * 4u);
  const FileTensor& master = tensors.at("h.0.attn.c_attn.weight.master");
  EXPECT_EQ(master.dtype, "F32");
  EXPECT_EQ(master.shape, (std::vector<std::int64_t>{216, 72}));  // (out, in)
  for (std::int64_t i = 0; i < 216 * 72; ++i) {
    ASSERT_EQ(master.at<float>(i), value_of(kConv1d, 0, i));
  }
  const FileTensor& moment = tensors.at("h.0.attn.c_attn.weight.moment2");
  EXPECT_EQ(moment.dtype, "I8");
  const FileTensor& scales = tensors.at("h.0.attn.c_attn.weight.moment2.scales");
  // Elements 128 to 15,680 of the unit: groups 0 to 61.
  EXPECT_EQ(scales.shape, std::vector<std::int64_t>{62});
  for (std::int64_t group = 0; group < 62; ++group) {
    ASSERT_EQ(scales.at<float>(group), value_of("scales of 2", 3, group)) << group;
  }
  // The table's second piece begins in a group of its own: 6,480 elements, then 2,376.
  EXPECT_EQ(tensors.at("wte.weight.moment1.scales").shape, std::vector<std::int64_t>{26 + 10});
  EXPECT_FALSE(tensors.contains("ln_f.weight.moment1"));
}

TEST(PortableLayout, FilesAreAsLargeAsAskedAndIndexed) {
  const test::TemporaryFolder folder;
  PortableFormat format;
  format.file_bytes_max = 20'000;
  StoredModel(kBf16, 1).export_to(folder.path("m"), format);
  const auto tensors = tensors_in(folder.path("m"));
  const json index = json::parse(test::contents_of(folder.path("m/model.safetensors.index.json")));
  std::set<std::string> files;
  std::int64_t total = 0;
  for (const auto& [name, file] : index["weight_map"].items()) {
    EXPECT_EQ(tensors.at(name).file, file) << name;
    files.insert(file);
    total += std::ssize(tensors.at(name).bytes);
  }
  EXPECT_EQ(index["weight_map"].size(), 6u);
  EXPECT_EQ(index["metadata"]["total_size"], total);
  // The table (17,712 bytes) and the first norm (144); the matrix (31,104), which alone is larger
  // than asked; the rest.
  EXPECT_EQ(files, (std::set<std::string>{"model-00001-of-00003.safetensors",
                                          "model-00002-of-00003.safetensors",
                                          "model-00003-of-00003.safetensors"}));
}

TEST(PortableLayout, EveryTensorIsAligned) {
  for (const MomentFormat moments : {MomentFormat::bf16, MomentFormat::int8}) {
    const StoredModel model({Dtype::bf16, Dtype::f32, moments, 2}, 1);
    const PortableLayout layout(model.manifest, {});
    for (const PortableTensor& tensor : layout.tensors()) {
      EXPECT_EQ(tensor.offset_bytes % element_bytes(tensor), 0) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace strata::engine::testing
