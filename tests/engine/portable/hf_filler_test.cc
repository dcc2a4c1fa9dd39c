// A model folder in every form that there is of it fills any number of ranks with the same masters.
#include "engine/portable/hf_filler.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/base/failure_latch.h"
#include "kernels/device/cpu_device.h"
#include "models/safetensors.h"
#include "tests/engine/portable/portable_machine.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

namespace fs = std::filesystem;
using offload::StateDtypes;
using test::error_text;
using test::mentions;

constexpr StateDtypes kBf16{Dtype::bf16, Dtype::f32, MomentFormat::f32, 2};
constexpr StateDtypes kF32{Dtype::f32, Dtype::f32, MomentFormat::int8, 2};

// The tensors of a folder as Hugging Face has them, by name without prefix, written by hand.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major in that shape
  std::string dtype = "F32";
};
using Tensors = std::map<std::string, Tensor>;

// What small_parameters() are in a file: values with few bits, so that every type has them exactly.
float few_bits(const std::string& name, std::int64_t element) {
  return static_cast<float>(value_bits(name, 0, element) >> 57) / 16 - 4.0f;
}

Tensors model_tensors(const std::string& dtype) {
  const auto value =
      dtype == "F32"
          ? [](const std::string& name, std::int64_t element) { return value_of(name, 0, element); }
          : few_bits;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    Tensor tensor{{rows, columns}, {}, dtype};
    for (std::int64_t i = 0; i < rows * columns; ++i) tensor.values.push_back(value(name, i));
    return tensor;
  };
  const auto vector = [&](const std::string& name, std::int64_t elements) {
    Tensor tensor = matrix(name, 1, elements);
    tensor.shape = {elements};
    return tensor;
  };
  Tensors tensors = {{"wte.weight", matrix("wte.weight", 123, 72)},
                     {"h.0.ln_1.weight", vector("h.0.ln_1.weight", 72)},
                     {"h.0.attn.c_attn.bias", vector("h.0.attn.c_attn.bias", 216)},
                     {"ln_f.weight", vector("ln_f.weight", 72)},
                     {"ln_f.bias", vector("ln_f.bias", 72)}};
  Tensor conv{{72, 216}, std::vector<float>(72 * 216), dtype};  // ours is (216, 72)
  for (std::int64_t out = 0; out < 216; ++out) {
    for (std::int64_t in = 0; in < 72; ++in) {
      conv.values[static_cast<std::size_t>(in * 216 + out)] = value(kConv1d, out * 72 + in);
    }
  }
  tensors[kConv1d] = std::move(conv);
  return tensors;
}

std::string bytes_of(const Tensor& tensor) {
  std::string bytes;
  for (const float value : tensor.values) {
    if (tensor.dtype == "F32") {
      bytes.append(reinterpret_cast<const char*>(&value), 4);
      continue;
    }
    std::uint16_t bits = to_bf16_nearest_even(value).bits;
    if (tensor.dtype == "F16") {
      const auto half = static_cast<_Float16>(value);
      std::memcpy(&bits, &half, sizeof bits);
    }
    bytes.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return bytes;
}

void write_file(const std::string& path, const Tensors& tensors, const std::string& prefix) {
  models::SafetensorsHeader header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header.tensors.push_back({prefix + name, tensor.dtype, tensor.shape, 0, 0});
    data += bytes_of(tensor);
  }
  models::place_tensors(header.tensors);
  std::ofstream(path, std::ios::binary) << encode_safetensors(header) << data;
}

// Each tensor in a file of its own.
void write_shards(const std::string& folder, const Tensors& tensors, const std::string& prefix) {
  nlohmann::json index;
  for (const auto& [name, tensor] : tensors) {
    const std::string file = name + ".safetensors";
    write_file(folder + "/" + file, {{name, tensor}}, prefix);
    index["weight_map"][prefix + name] = file;
  }
  std::ofstream(folder + "/model.safetensors.index.json") << index;
}

store::Manifest manifest_of(StateDtypes dtypes, int world_size = 1) {
  return store::make_manifest(plan_of(dtypes, world_size, offload::Durability::none),
                              small_parameters());
}

// Fills a rank; `check` sees its store.
template <typename Check>
void fill(const std::string& folder, StateDtypes dtypes, int world_size, int rank, Check check) {
  const offload::Plan plan = plan_of(dtypes, world_size, offload::Durability::none);
  FailureLatch failure;
  WorkerSet workers(1);
  Budget host("host memory", 16 * kMiB);
  CpuDevice device({8 * kMiB, -1}, host, workers, failure, nullptr);
  offload::StateStore store(plan, device, nullptr, workers);
  StateAccess access(store, device, {});
  HfFiller(folder, manifest_of(dtypes, world_size), rank).fill(store, access, {});
  check(plan, store, access);
}

// Every element of every state, whoever has it, against what the tensors were made from.
void expect_filled(const std::string& folder, StateDtypes dtypes, int world_size,
                   float (*value)(const std::string&, std::int64_t)) {
  for (int rank = 0; rank < world_size; ++rank) {
    fill(folder, dtypes, world_size, rank,
         [&](const offload::Plan& plan, offload::StateStore& store, StateAccess& access) {
           for (int unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
             const std::vector<float> master = read_master(access, store, unit, rank);
             const std::int64_t begin = rank * store.unit(unit).shard_elements;
             std::vector<float> expected(master.size(), 0.0f);
             for (const store::Parameter& piece :
                  small_parameters()[static_cast<std::size_t>(unit)]) {
               for (std::int64_t i = 0; i < piece.rows * piece.columns; ++i) {
                 const std::int64_t at = piece.offset_elements + i - begin;
                 if (at < 0 || at >= std::ssize(expected)) continue;
                 expected[static_cast<std::size_t>(at)] =
                     value(piece.name, piece.first_row * piece.columns + i);
               }
             }
             ASSERT_EQ(master, expected) << "unit " << unit << ", rank " << rank;
             for (const StateKind moment : {StateKind::moment1, StateKind::moment2}) {
               const std::int64_t bytes = plan.shard_bytes(store.unit(unit), moment);
               const std::byte* const stored =
                   bytes > 0 ? store.host(unit, moment).data() : nullptr;
               EXPECT_TRUE(std::all_of(stored, stored + bytes,
                                       [](std::byte byte) { return byte == std::byte{0}; }));
             }
           }
         });
  }
}

float all_bits(const std::string& name, std::int64_t element) { return value_of(name, 0, element); }

class HfFillerTest : public ::testing::Test {
 protected:
  void expect_refused(const Tensors& tensors, const std::vector<std::string>& parts) {
    write_file(file_, tensors, "transformer.");
    const std::string text = error_text<ConfigError>([&] { fill_one(); });
    for (const std::string& part : parts) EXPECT_PRED2(mentions, text, part);
  }
  void fill_one(StateDtypes dtypes = kBf16) {
    fill(folder_.path(), dtypes, 1, 0, [](auto&&...) {});
  }

  const test::TemporaryFolder folder_;
  const std::string file_ = folder_.path("model.safetensors");
};

TEST_F(HfFillerTest, AnyNumberOfRanksGetsEveryBitOfF32) {
  write_file(file_, model_tensors("F32"), "transformer.");
  for (const int ranks : {1, 2, 3}) {
    expect_filled(folder_.path(), kBf16, ranks, all_bits);
    expect_filled(folder_.path(), kF32, ranks, all_bits);
  }
}

TEST_F(HfFillerTest, NarrowTypesAreWidenedExactly) {
  for (const char* const dtype : {"F16", "BF16"}) {
    write_file(file_, model_tensors(dtype), "");
    expect_filled(folder_.path(), kBf16, 2, few_bits);
  }
}

TEST_F(HfFillerTest, ShardsAndLinksAreFine) {
  const std::string blobs = folder_.make_folder("blobs");
  const std::string snapshot = folder_.make_folder("snapshot");
  write_shards(blobs, model_tensors("F32"), "transformer.");
  for (const auto& entry : fs::directory_iterator(blobs)) {
    fs::create_symlink(entry.path(), fs::path(snapshot) / entry.path().filename());
  }
  expect_filled(snapshot, kBf16, 2, all_bits);
  EXPECT_EQ(HfReader(snapshot, PortableParameters(manifest_of(kBf16)).all()).description(),
            "6 files, f32");
}

TEST_F(HfFillerTest, MaskBuffersAndAHeadThatIsTheTableAreIgnored) {
  Tensors tensors = model_tensors("F32");
  tensors["h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  tensors["h.0.attn.masked_bias"] = {{}, {-1e4f}};
  tensors["lm_head.weight"] = tensors["wte.weight"];
  write_file(file_, tensors, "");
  expect_filled(folder_.path(), kBf16, 2, all_bits);
}

TEST_F(HfFillerTest, AllTensorsThatDoNotFitAreNamed) {
  Tensors tensors = model_tensors("F32");
  tensors.erase("ln_f.bias");
  tensors["h.1.ln_1.weight"] = {{1}, {0}};
  tensors["ln_f.weight"].shape = {1, 72};
  tensors["h.0.ln_1.weight"].dtype = "BF16";
  tensors["h.0.attn.bias.bias"] = {{1}, {0}};
  std::swap(tensors[kConv1d].shape[0], tensors[kConv1d].shape[1]);
  expect_refused(tensors, {"'transformer.ln_f.bias' is missing",
                           "'transformer.h.1.ln_1.weight' is no tensor of this model",
                           "'transformer.h.0.attn.bias.bias' is no tensor",
                           "'transformer.ln_f.weight' is (1, 72) and not (72)",
                           "c_attn.weight' is (216, 72) and not (72, 216)"});
}

TEST_F(HfFillerTest, ValuesThatCannotBeTrainedAreNamed) {
  Tensors tensors = model_tensors("F32");
  tensors["ln_f.bias"].values[7] = std::numeric_limits<float>::infinity();
  tensors["wte.weight"].values[100 * 72 + 5] = std::nanf("");
  tensors[kConv1d].values[3 * 216 + 200] = 3.4e38f;
  expect_refused(tensors,
                 {"'transformer.ln_f.bias' [7] is inf", "'transformer.wte.weight' [100, 5] is nan",
                  "c_attn.weight' [3, 200] is 3.4e+38, which --precision bf16 cannot"});
  tensors["ln_f.bias"].values[7] = 0;
  tensors["wte.weight"].values[100 * 72 + 5] = 0;
  write_file(file_, tensors, "");
  EXPECT_NO_THROW(fill_one(kF32));  // whose masters are whole
}

TEST_F(HfFillerTest, AHeadOfItsOwnIsRefused) {
  Tensors tensors = model_tensors("F32");
  tensors["lm_head.weight"] = tensors["wte.weight"];
  tensors["lm_head.weight"].values[122 * 72 + 71] += 1;
  expect_refused(tensors, {"'lm_head.weight' differs from 'transformer.wte.weight' [122, 71]"});
  tensors["lm_head.weight"] = {{1, 72}, std::vector<float>(72)};
  expect_refused(tensors, {"'lm_head.weight' is not as 'transformer.wte.weight'"});
}

TEST_F(HfFillerTest, AFolderWithoutSafetensorsIsRefused) {
  const auto refusal = [&] { return error_text<ConfigError>([&] { fill_one(); }); };
  EXPECT_PRED2(mentions, refusal(), "neither model.safetensors nor model.safetensors.index.json");
  std::ofstream(folder_.path("pytorch_model.bin")) << "pickle";
  EXPECT_PRED2(mentions, refusal(), "save_pretrained");
}

TEST_F(HfFillerTest, ADamagedFileIsRefusedByName) {
  write_file(file_, model_tensors("F32"), "");
  fs::resize_file(file_, fs::file_size(file_) - 1);
  EXPECT_PRED2(mentions, error_text<FormatError>([&] { fill_one(); }), file_);
}

TEST_F(HfFillerTest, APipeIsNotWaitedForAndAFolderIsNoFile) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { fill_one(); }),
               file_ + ": it is no regular file");
  fs::remove(file_);
  fs::create_directory(file_);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { fill_one(); }), file_ + ": Is a directory");
}

TEST_F(HfFillerTest, AnIndexNestedDeeplyIsRefused) {
  const std::string index = folder_.path("model.safetensors.index.json");
  std::ofstream(index) << R"({"weight_map": )" << std::string(200'000, '[');
  const std::string text = error_text<FormatError>([&] { fill_one(); });
  EXPECT_PRED2(mentions, text, index + ": its JSON is nested deeper than 100");
}

TEST_F(HfFillerTest, NoShardLeavesTheFolder) {
  const std::string index = folder_.path("model.safetensors.index.json");
  for (const char* const file : {"../x.safetensors", "/x.safetensors", "", "..", "x.bin"}) {
    std::ofstream(index) << nlohmann::json{{"weight_map", {{"wte.weight", file}}}};
    EXPECT_PRED2(mentions, error_text<FormatError>([&] { fill_one(); }), "beside it") << file;
  }
}

TEST_F(HfFillerTest, TheIndexHasToBeRight) {
  write_shards(folder_.path(), model_tensors("F32"), "");
  const std::string path = folder_.path("model.safetensors.index.json");
  auto index = nlohmann::json::parse(test::contents_of(path));
  index["weight_map"]["ln_f.bias"] = "ln_f.weight.safetensors";
  std::ofstream(path) << index;
  const std::string text = error_text<ConfigError>([&] { fill_one(); });
  EXPECT_PRED2(mentions, text, "'ln_f.bias' is not in ln_f.weight.safetensors");
}

}  // namespace
}  // namespace strata::engine::testing
