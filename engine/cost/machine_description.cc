#include "engine/cost/machine_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/cost/machine_description_reader.h"
#include "io/plain_file.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/comm/nccl.h"

namespace strata::engine {

namespace {

constexpr int kHostsMax = 100'000;
constexpr int kRanksPerHostMax = 1024;
constexpr int kCoresMax = 65'536;
constexpr int kDrivesMax = 128;
// What a core of today's processors reads and writes in sum when it copies alone.
constexpr double kCoreMemoryBytesPerS = 16e9;

MatmulFlops read_matmul(ObjectReader& reader) {
  MatmulFlops matmul;
  if (reader.has("bf16_flops")) matmul.bf16_per_s = reader.flops_per_s("bf16_flops");
  if (reader.has("f32_flops")) matmul.f32_per_s = reader.flops_per_s("f32_flops");
  if (reader.has("flops_reached")) matmul.reached = reader.share("flops_reached");
  return matmul;
}

GpuDescription read_gpu(ObjectReader reader, int ranks_per_host) {
  GpuDescription gpu;
  gpu.name = reader.text("name");
  gpu.count = reader.count("count", 1, kRanksPerHostMax);
  gpu.memory_bytes = reader.bytes("memory");
  if (reader.has("memory_reserved")) gpu.reserved_bytes = reader.bytes("memory_reserved");
  gpu.matmul = read_matmul(reader);
  gpu.memory_bytes_per_s = reader.bytes_per_s("memory_rate");
  gpu.to_device_bytes_per_s = reader.bytes_per_s("to_device_rate");
  gpu.from_device_bytes_per_s = reader.bytes_per_s("from_device_rate");
  reader.finish();
  if (gpu.reserved_bytes >= gpu.memory_bytes) {
    throw ConfigError("gpu.memory_reserved must be less than gpu.memory");
  }
  if (gpu.count != ranks_per_host) {
    throw_error<ConfigError>("gpu.count is {} and ranks_per_host {}: each rank has one GPU",
                             gpu.count, ranks_per_host);
  }
  return gpu;
}

HostDescription read_host(ObjectReader reader) {
  HostDescription host;
  host.processor = reader.text("processor");
  host.cores = reader.count("cores", 1, kCoresMax);
  host.matmul = read_matmul(reader);
  host.memory_bytes = reader.bytes("memory");
  if (reader.has("memory_reserved")) host.reserved_bytes = reader.bytes("memory_reserved");
  host.memory_bytes_per_s = reader.bytes_per_s("memory_rate");
  host.core_memory_bytes_per_s =
      reader.has("core_memory_rate")
          ? reader.bytes_per_s("core_memory_rate")
          : std::clamp(kCoreMemoryBytesPerS, host.memory_bytes_per_s / host.cores,
                       host.memory_bytes_per_s);
  host.checksum_bytes_per_s = reader.bytes_per_s("checksum_rate");
  reader.finish();
  if (host.reserved_bytes >= host.memory_bytes) {
    throw ConfigError("host.memory_reserved must be less than host.memory");
  }
  if (host.core_memory_bytes_per_s > host.memory_bytes_per_s) {
    throw ConfigError("host.core_memory_rate must be at most host.memory_rate");
  }
  return host;
}

DriveDescription read_drives(ObjectReader reader) {
  DriveDescription drive;
  drive.name = reader.text("name");
  drive.count = reader.count("count", 1, kDrivesMax);
  drive.capacity_bytes = reader.bytes("capacity");
  if (drive.capacity_bytes == 0) throw ConfigError("drives.capacity must be above 0");
  drive.read_bytes_per_s = reader.bytes_per_s("read_rate");
  drive.written_bytes_per_s = reader.bytes_per_s("write_rate");
  if (reader.has("mixed_rate")) drive.mixed_bytes_per_s = reader.bytes_per_s("mixed_rate");
  if (reader.has("endurance")) drive.endurance_bytes = reader.endurance_bytes("endurance");
  reader.finish();
  return drive;
}

MachineDescription read_machine(ObjectReader reader) {
  MachineDescription machine;
  machine.name = reader.text("name");
  machine.sources = reader.texts("sources");
  machine.hosts = reader.count("hosts", 1, kHostsMax);
  machine.ranks_per_host = reader.count("ranks_per_host", 1, kRanksPerHostMax);
  if (reader.has("network_rate")) {
    machine.network_bytes_per_s = reader.bytes_per_s("network_rate");
  }
  if (auto gpu = reader.object("gpu")) machine.gpu = read_gpu(*gpu, machine.ranks_per_host);
  const auto host = reader.object("host");
  if (!host) throw ConfigError("host is missing");
  machine.host = read_host(*host);
  if (auto drives = reader.object("drives")) machine.drive = read_drives(*drives);
  reader.finish();
  if (machine.ranks() > 1 && machine.network_bytes_per_s == 0) {
    throw_error<ConfigError>("network_rate is missing: there are {} ranks", machine.ranks());
  }
  return machine;
}

// Options that are about the machine at hand, or a run on it; and those that a command of tune for
// the described machine has, where they say something else.
void refuse_contradictions(const MachineDescription& machine, const Options& options, int threads) {
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw_error<ConfigError>("--{} and --machine exclude each other: {}", option, why);
  };
  refuse(!options.nvme.empty() && machine.drive.count == 0, "nvme", "it describes no drives");
  refuse(!options.nvme_endurance.empty(), "nvme-endurance", "drives.endurance says it");
  refuse(options.threads.value_or(threads) != threads, "threads", "host.cores says it");
  refuse(options.isa != "auto", "isa", "it is about the processor of this machine");
  refuse(options.resume, "resume", "the run is on this machine");
  refuse(!options.resume_from.empty(), "resume-from", "the run is on this machine");
}

void require_memory(const char* option, std::int64_t asked, std::int64_t there, const char* what) {
  if (asked <= there) return;
  throw_error<ConfigError>("--{} asks for {}, but --machine describes {} with {} to use", option,
                           format_bytes(asked), what, format_bytes(there));
}

// As a run would choose there: the faster of the two that its operands allow.
Dtype choose_arithmetic(const MatmulFlops& matmul, const RunSetup& setup) {
  if (setup.shape.precision == Dtype::f32 || setup.options.matmul_dtype == "f32") return Dtype::f32;
  if (setup.options.matmul_dtype == "bf16") return Dtype::bf16;
  return matmul.bf16_per_s >= matmul.f32_per_s ? Dtype::bf16 : Dtype::f32;
}

// `processor`: "gpu" or "host".
double flops_per_s(const MatmulFlops& matmul, Dtype arithmetic, const char* processor) {
  const double peak = arithmetic == Dtype::bf16 ? matmul.bf16_per_s : matmul.f32_per_s;
  if (peak == 0) {
    throw_error<ConfigError>("--machine: {}.{}_flops is missing, which this run computes with",
                             processor, name_of(arithmetic));
  }
  return matmul.reached * peak;
}

void describe_gpu(const GpuDescription& gpu, const RunSetup& setup, MachineRates& rates) {
  rates.default_arithmetic = choose_arithmetic(gpu.matmul, setup);
  rates.gpu.emplace();
  rates.gpu->flops_per_s = flops_per_s(gpu.matmul, rates.default_arithmetic, "gpu");
  rates.gpu->memory_bytes_per_s = gpu.memory_bytes_per_s;
  rates.gpu->to_device_bytes_per_s = gpu.to_device_bytes_per_s;
  rates.gpu->from_device_bytes_per_s = gpu.from_device_bytes_per_s;
}

void describe_cores(const MachineDescription& machine, const RunSetup& setup, MachineRates& rates) {
  const MatmulFlops& matmul = machine.host.matmul;
  rates.default_arithmetic = choose_arithmetic(matmul, setup);
  const double share =
      flops_per_s(matmul, rates.default_arithmetic, "host") / machine.ranks_per_host;
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    rates.matmuls.push_back({shape.kind, shape.n, shape.k, rates.default_arithmetic, share});
  }
}

}  // namespace

MachineDescription parse_machine_description(std::string_view text) {
  const nlohmann::json json = parse_object_text(text);
  return read_machine(ObjectReader(json, ""));
}

MachineDescription read_machine_description(const std::string& path) {
  try {
    const std::optional<std::string> text = io::read_file(path);
    if (!text) throw ConfigError("there is no such file");
    return parse_machine_description(*text);
  } catch (const Error& e) {
    throw_error<ConfigError>("--machine {}: {}", path, e.what());
  }
}

comm::Topology topology_of(const MachineDescription& machine) {
  comm::Topology topology;
  topology.world_size = machine.ranks();
  topology.local_world_size = machine.ranks_per_host;
  topology.hosts = machine.hosts;
  return topology;
}

comm::Communicator::StagingBytes comm_staging_of(const MachineDescription& machine,
                                                 const std::string& device) {
  const std::int64_t of_a_peer =
      device == "cuda" ? comm::NcclOptions().piece_bytes : 2 * comm::MpiOptions().piece_bytes;
  return {.device = (machine.ranks() - 1) * of_a_peer, .host = 0};
}

Options options_for(const MachineDescription& machine, const Options& options) {
  if (options.device == "cuda" && machine.gpu.count == 0) {
    throw ConfigError("--device cuda: --machine describes no GPU");
  }
  Options described = options;
  const bool on_gpu = machine.gpu.count > 0 && options.device != "cpu";
  described.device = on_gpu ? "cuda" : "cpu";
  described.threads = std::max(1, machine.host.cores / machine.ranks_per_host);
  refuse_contradictions(machine, options, *described.threads);
  const std::int64_t host_bytes = options.host_memory.value_or(0);
  const std::int64_t device_bytes = options.device_memory.value_or(0);
  if (on_gpu) {
    require_memory("device-memory", device_bytes, machine.gpu.usable_bytes(), "a GPU");
    require_memory("host-memory", host_bytes, machine.host.usable_bytes(), "a host");
  } else {  // both tiers are the host's memory
    require_memory("device-memory", device_bytes, machine.host.usable_bytes(), "a host");
    require_memory("host-memory", host_bytes, machine.host.usable_bytes(), "a host");
    require_memory("device-memory and --host-memory",
                   machine.ranks_per_host * device_bytes + host_bytes, machine.host.usable_bytes(),
                   "a host");
  }
  return described;
}

MachineRates rates_of(const MachineDescription& machine, const RunSetup& setup) {
  const double ranks = machine.ranks_per_host;
  MachineRates rates;
  if (setup.options.device == "cuda") {
    describe_gpu(machine.gpu, setup, rates);
  } else {
    describe_cores(machine, setup, rates);
  }
  rates.memory_bytes_per_s = machine.host.memory_bytes_per_s / ranks;
  rates.core_memory_bytes_per_s =
      std::min(machine.host.core_memory_bytes_per_s, rates.memory_bytes_per_s);
  rates.optimizer_bytes_per_s = rates.memory_bytes_per_s;  // an update is bound by memory
  rates.checksum_bytes_per_s = machine.host.checksum_bytes_per_s / ranks;
  const double drives = machine.drive.count / ranks;
  rates.nvme.read_bytes_per_s = drives * machine.drive.read_bytes_per_s;
  rates.nvme.written_bytes_per_s = drives * machine.drive.written_bytes_per_s;
  rates.nvme.mixed_bytes_per_s = drives * machine.drive.mixed_bytes_per_s;
  rates.network.bytes_per_s = machine.network_bytes_per_s;
  return rates;
}

}  // namespace strata::engine
