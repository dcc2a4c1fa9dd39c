// Writes inputs for each target, for fuzzing to start from, valid ones and such that are nested
// deeply: write_seeds FOLDER makes
// FOLDER/{header,manifest,superblock,idx,safetensors,hf_config,tokenizer}/seeds/…, whose folders
// exist.
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>

#include "models/hf_config.h"
#include "models/presets.h"
#include "models/safetensors.h"
#include "offload/store/file_header.h"
#include "offload/store/superblock.h"
#include "tests/fuzz/small_store.h"
#include "tests/offload/store/encoded.h"

namespace {

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

template <typename T>
void append(std::string& bytes, std::initializer_list<T> values) {
  bytes.append(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

// The size of a Megatron .bin, and its .idx (idx_fuzz.cc): two sequences, each a document.
std::string megatron_index() {
  std::string bytes;
  append<std::int64_t>(bytes, {10});
  bytes.append("MMIDIDX\0\0", 9);
  append<std::uint64_t>(bytes, {1});     // version
  append<std::uint8_t>(bytes, {8});      // uint16
  append<std::uint64_t>(bytes, {2, 3});  // sequences, document indices
  append<std::int32_t>(bytes, {2, 3});   // lengths
  append<std::int64_t>(bytes, {0, 4});   // pointers
  append<std::int64_t>(bytes, {0, 1, 2});
  return bytes;
}

constexpr const char* kTokenizer =
    R"({
"added_tokens": [{"id": 4, "content": "</s>", "special": true}],
"decoder": {"type": "Sequence", "decoders": [
{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
"model": {"type": "BPE", "vocab": {"▁a": 0, "<0xE2>": 1, "<0x82>": 2, "<0xAC>": 3},
"merges": []}})";

}  // namespace

int main(int, char** arguments) {
  using namespace strata::store;
  using strata::store::testing::encoded;
  const std::string folder = arguments[1];
  const Manifest manifest = strata::fuzz::small_store();
  const std::string text = encode(manifest);
  write(folder + "/manifest/seeds/valid", std::as_bytes(std::span(text)));

  FileHeader header;
  header.host = "host";
  header.run_folder = "/run";
  header.manifest_bytes = static_cast<std::int64_t>(text.size());
  header.commit_table_bytes = commit_table_bytes(manifest);
  header.data_bytes = manifest.data_bytes;
  header.stripe_bytes = 65536;
  header.shares = {{2, (manifest.data_bytes + 65535) / 65536}, {1, 0}};
  write(folder + "/header/seeds/valid", encode(header));

  Superblock superblock;
  superblock.table_bytes = commit_table_bytes(manifest);
  const auto blocks = static_cast<std::size_t>(manifest.committed_blocks());
  auto bytes = encoded(superblock);
  const CommitTable live_in_slot_1{{1}, std::vector<std::uint64_t>(blocks, 7)};
  const auto table = encoded(live_in_slot_1, superblock.sequence, manifest);
  bytes.insert(bytes.end(), table.begin(), table.end());
  write(folder + "/superblock/seeds/valid", bytes);

  const std::string index = megatron_index();
  write(folder + "/idx/seeds/valid", std::as_bytes(std::span(index)));

  strata::models::SafetensorsHeader model{
      {{"a", "F32", {2, 3}, 0, 0}, {"b", "BF16", {}, 0, 0}, {"c", "I8", {0}, 0, 0}},
      {{"format", "pt"}}};
  const auto data_bytes = static_cast<std::size_t>(strata::models::place_tensors(model.tensors));
  const std::string file = encode_safetensors(model) + std::string(data_bytes, '\0');
  write(folder + "/safetensors/seeds/valid", std::as_bytes(std::span(file)));

  for (const std::string name : {"gpt2-124m", "llama3.1-8b", "mistral-7b", "qwen3-0.6b"}) {
    const std::string config =
        strata::models::hf_config_text(strata::models::parse_model(name), strata::Dtype::f32);
    write(folder + "/hf_config/seeds/" + name, std::as_bytes(std::span(config)));
  }

  const std::string tokenizer = kTokenizer;
  write(folder + "/tokenizer/seeds/valid", std::as_bytes(std::span(tokenizer)));

  const std::string nested =
      R"({"decoder": )" + std::string(200, '[') + std::string(200, ']') + "}";
  for (const char* const target : {"hf_config", "tokenizer"}) {
    write(folder + "/" + target + "/seeds/nested", std::as_bytes(std::span(nested)));
  }
}
