#include "engine/cost/machine_cache.h"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "engine/cost/measured_rates.h"
#include "io/drive_space.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"
#include "kernels/base/system_file.h"

namespace strata::engine {

namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 8;
constexpr const char* kCores = "cores";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kArithmetic = "arithmetic";
constexpr const char* kGpu = "gpu";
constexpr const char* kDrives = "drives";
constexpr const char* kCompute = "compute";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string hash_text(const std::string& text) {
  return fmt::format("{:016x}", std::hash<std::string>{}(text));
}

std::string processor_name() {
  constexpr std::string_view kKey = "model name";
  const std::string text = read_system_file("/proc/cpuinfo").value_or("");
  const std::size_t key = text.find(kKey);
  if (key == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of("\t :", key + kKey.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

nlohmann::json json_of(const MachineIdentity& identity) {
  return {{"processor", identity.processor},
          {"threads", identity.threads},
          {"ranks", identity.ranks},
          {"memory_bytes", identity.memory_bytes},
          {"isa", identity.isa},
          {"matmul_library", identity.matmul_library},
          {"driver", identity.driver}};
}

// To a power of two.
int magnitude(std::int64_t elements) {
  return std::bit_width(static_cast<std::uint64_t>(elements));
}

// What the cores' rates depend on: who shares memory and network, and how much is passed over at
// once, which a cache may hold.
std::string cores_key(const RunSetup& setup) {
  std::int64_t elements = 0;
  for (const offload::UnitPlan& unit : setup.plan.units) {
    elements = std::max(elements, unit.shard_elements);
  }
  return fmt::format("{} of {} ranks on {} hosts, 2^{}", setup.topology.local_world_size,
                     setup.topology.world_size, setup.topology.hosts, magnitude(elements));
}

// Updates depend on how state is stored too, and on how much of it there is.
std::string optimizer_key(const RunSetup& setup) {
  const offload::StateDtypes& dtypes = setup.plan.dtypes;
  return fmt::format("{}, {} weights, {} moments {}, {} gradients, 2^{}", cores_key(setup),
                     name_of(dtypes.weights), dtypes.moment_count, setup.options.moments,
                     name_of(dtypes.gradients), magnitude(updated_elements(setup.plan)));
}

std::string arithmetic_key(const RunSetup& setup) {
  std::string key =
      fmt::format("{} {} {}x{}", name_of(setup.shape.precision), setup.options.matmul_dtype,
                  setup.shape.micro_batch.sequences, setup.shape.micro_batch.tokens);
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    if (shape.kind == ops::MatmulKind::forward) key += fmt::format(" {}x{}", shape.n, shape.k);
  }
  return key;
}

// What a block and the head are, but for how many blocks there are.
std::string compute_key(const RunSetup& setup, const MachineRates& rates) {
  const models::ModelConfig& model = setup.model;
  std::string key = fmt::format(
      "{} {} heads {} kv {} dim {} window {} vocabulary {} recompute {} pack {} overwritten {} "
      "attention {} ",
      arithmetic_key(setup), name_of(model.family), model.heads, model.kv_heads, model.head_dim,
      model.window, model.vocabulary, setup.shape.recompute, setup.options.pack,
      overwritten_share(setup), name_of(rates.default_arithmetic));
  for (const ops::MatmulChoice& choice : rates.matmuls) {
    key += choice.arithmetic == Dtype::bf16 ? 'b' : 'f';
  }
  return key;
}

// The drives and file systems below the directories; "" where one cannot be looked at.
std::string drives_key(const RunSetup& setup, std::span<const std::string> directories) {
  std::string key = setup.options.io_engine;
  for (const std::string& directory : directories) {
    struct statfs status;
    if (statfs(directory.c_str(), &status) != 0) return "";
    key += fmt::format(" {} {:x} {:x}{:x}", io::drive_of(directory), status.f_type,
                       status.f_fsid.__val[0], status.f_fsid.__val[1]);
  }
  return key;
}

nlohmann::json json_of(const GpuRates& gpu) {
  return {gpu.flops_per_s, gpu.memory_bytes_per_s, gpu.to_device_bytes_per_s,
          gpu.from_device_bytes_per_s, gpu.both_ways_bytes_per_s};
}

nlohmann::json json_of(const DriveRates& drives) {
  return {drives.read_bytes_per_s, drives.written_bytes_per_s, drives.mixed_bytes_per_s,
          drives.core_s_per_byte, drives.core_s_per_byte_least};
}

}  // namespace

MachineIdentity identify_machine(const RunSetup& setup) {
  MachineIdentity identity;
  identity.processor = processor_name();
  identity.threads = setup.threads;
  identity.ranks = setup.topology.local_world_size;
  const std::string memory = read_system_file("/proc/meminfo").value_or("");
  identity.memory_bytes = number_of_key(memory, "MemTotal:").value_or(0) * 1024;
  identity.isa = name_of(setup.isa);
  ops::limit_matmul_library(setup.isa);
  identity.matmul_library = matmul_library(setup.device);
  if (setup.device.gpu) identity.driver = setup.device.gpu->gpu.driver;
  return identity;
}

std::string machine_cache_path(const MachineIdentity& identity) {
  fs::path folder = variable("XDG_CACHE_HOME");
  if (!folder.is_absolute()) folder.clear();  // as the XDG specification has it
  if (folder.empty() && !variable("HOME").empty()) folder = fs::path(variable("HOME")) / ".cache";
  if (folder.empty()) return "";
  const std::string hash = hash_text(json_of(identity).dump());
  return folder / "strata" / fmt::format("machine-{}.json", hash);
}

MachineCache::MachineCache(std::string path, MachineIdentity identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  if (path_.empty()) return;
  try {
    tables_ = read();
  } catch (const std::exception& e) {  // of whatever kind: what is there is not used
    note_ = fmt::format("{} is not used: {}", path_, e.what());
  }
}

nlohmann::json MachineCache::read() const {
  const std::optional<std::string> text = io::read_file(path_);
  if (!text) return nlohmann::json::object();
  nlohmann::json json = nlohmann::json::parse(*text);
  if (json.at("version") != kVersion) throw FormatError("it is of another version");
  if (json.at("machine") != json_of(identity_)) throw FormatError("it is of another machine");
  nlohmann::json& tables = json.at("tables");
  if (json.at("checksum") != hash_text(tables.dump())) throw FormatError("it is damaged");
  return std::move(tables);
}

const nlohmann::json* MachineCache::find(const char* table, const std::string& key) const {
  if (!tables_.contains(table)) return nullptr;
  const auto entry = tables_[table].find(key);
  return entry == tables_[table].end() ? nullptr : &*entry;
}

std::optional<MachineRates> MachineCache::find_rates(
    const RunSetup& setup, std::span<const std::string> directories) const {
  const nlohmann::json* const cores = find(kCores, cores_key(setup));
  const nlohmann::json* const arithmetic = find(kArithmetic, arithmetic_key(setup));
  const nlohmann::json* const drives = find(kDrives, drives_key(setup, directories));
  const nlohmann::json* const gpu = find(kGpu, arithmetic_key(setup));
  const std::optional<double> optimizer = find_optimizer(setup);
  if (cores == nullptr || !optimizer || arithmetic == nullptr) return std::nullopt;
  if (gpu == nullptr && setup.device.gpu) return std::nullopt;
  if (drives == nullptr && !directories.empty()) return std::nullopt;
  MachineRates rates;
  RecordedArithmetic recorded = read_arithmetic(*arithmetic);
  rates.matmuls = std::move(recorded.matmuls);
  rates.default_arithmetic = recorded.default_arithmetic;
  rates.memory_bytes_per_s = cores->at(0);
  rates.core_memory_bytes_per_s = cores->at(1);
  rates.checksum_bytes_per_s = cores->at(2);
  rates.network.bytes_per_s = cores->at(3);
  rates.optimizer_bytes_per_s = *optimizer;
  rates.workers_share = workers_share(setup);
  if (gpu != nullptr) rates.gpu = {gpu->at(0), gpu->at(1), gpu->at(2), gpu->at(3), gpu->at(4)};
  if (!directories.empty()) {
    rates.nvme = {drives->at(0), drives->at(1), drives->at(2), drives->at(3), drives->at(4)};
  }
  return rates;
}

void MachineCache::store_rates(const RunSetup& setup, std::span<const std::string> directories,
                               const MachineRates& rates) {
  if (rates.memory_bytes_per_s > 0 && rates.checksum_bytes_per_s > 0) {
    tables_[kCores][cores_key(setup)] = {rates.memory_bytes_per_s, rates.core_memory_bytes_per_s,
                                         rates.checksum_bytes_per_s, rates.network.bytes_per_s};
  }
  keep_optimizer(setup, rates.optimizer_bytes_per_s);
  if (rates.gpu && rates.gpu->to_device_bytes_per_s > 0) {
    tables_[kGpu][arithmetic_key(setup)] = json_of(*rates.gpu);
  }
  tables_[kArithmetic][arithmetic_key(setup)] = arithmetic_json(setup, rates);
  const std::string drives = drives_key(setup, directories);
  if (rates.nvme.in_use() && !drives.empty()) tables_[kDrives][drives] = json_of(rates.nvme);
  write();
}

std::optional<double> MachineCache::find_optimizer(const RunSetup& setup) const {
  const nlohmann::json* const rate = find(kOptimizer, optimizer_key(setup));
  return rate == nullptr ? std::nullopt : std::optional<double>(*rate);
}

void MachineCache::store_optimizer(const RunSetup& setup, double bytes_per_s) {
  keep_optimizer(setup, bytes_per_s);
  write();
}

void MachineCache::keep_optimizer(const RunSetup& setup, double bytes_per_s) {
  if (bytes_per_s > 0) tables_[kOptimizer][optimizer_key(setup)] = bytes_per_s;
}

std::optional<ComputeCost> MachineCache::find_compute(const RunSetup& setup,
                                                      const MachineRates& rates) const {
  const nlohmann::json* const compute = find(kCompute, compute_key(setup, rates));
  if (compute == nullptr) return std::nullopt;
  ComputeCost cost;
  compute->at("slowdown").get_to(cost.slowdown);
  std::size_t next = 0;
  for (WorkSeconds* const work : cost.parts()) compute->at("parts").at(next++).get_to(work->of);
  return cost;
}

void MachineCache::store_compute(const RunSetup& setup, const MachineRates& rates,
                                 const ComputeCost& cost) {
  nlohmann::json parts;
  for (const WorkSeconds* const work : cost.parts()) parts.push_back(work->of);
  tables_[kCompute][compute_key(setup, rates)] = {{"slowdown", cost.slowdown},
                                                  {"parts", std::move(parts)}};
  write();
}

void MachineCache::write() {
  if (path_.empty()) return;
  const nlohmann::json json = {{"version", kVersion},
                               {"machine", json_of(identity_)},
                               {"checksum", hash_text(tables_.dump())},
                               {"tables", tables_}};
  try {
    fs::create_directories(fs::path(path_).parent_path());
    io::replace_file(path_, json.dump(1) + "\n");
  } catch (const std::exception& e) {  // a run goes on without
    note_ = fmt::format("what was measured is not kept: {}", e.what());
  }
}

}  // namespace strata::engine
