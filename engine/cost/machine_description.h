// MachineDescription: a machine that need not be at hand, as JSON (docs/machines/, --machine FILE):
// what its links carry and its processors compute, so that `plan` and `tune` tell what a model
// would do there. docs/machines/README.md lists the keys, their units, and where figures come from.
//
// Strict: an unknown key is an error that suggests the nearest, every value is checked. All hosts
// are alike, and each rank has an equal share of its host: one GPU, or of the cores. Ranks on a
// host share its cores, memory and drives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cost/machine_rates.h"
#include "engine/options/options.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// FLOP/s of large matrix products: the peak of the data sheet, times the share of it that they
// reach. A peak of 0: this precision is not described.
struct MatmulFlops {
  double bf16_per_s = 0;
  double f32_per_s = 0;
  double reached = 1;  // 0 … 1
};

struct GpuDescription {
  std::string name;
  int count = 0;  // of a host; 0: none, the cores compute
  std::int64_t memory_bytes = 0;
  std::int64_t reserved_bytes = 0;  // that the driver's context and libraries take
  MatmulFlops matmul;
  double memory_bytes_per_s = 0;
  double to_device_bytes_per_s = 0;  // PCIe, of one GPU when all of a host are in use
  double from_device_bytes_per_s = 0;
  std::int64_t usable_bytes() const { return memory_bytes - reserved_bytes; }
};

struct HostDescription {
  std::string processor;
  int cores = 0;
  MatmulFlops matmul;  // with all cores, as the rates below
  std::int64_t memory_bytes = 0;
  std::int64_t reserved_bytes = 0;     // that is left to the system and other programs
  double memory_bytes_per_s = 0;       // read and written, in sum
  double core_memory_bytes_per_s = 0;  // by one core
  double checksum_bytes_per_s = 0;
  std::int64_t usable_bytes() const { return memory_bytes - reserved_bytes; }
};

// All drives of a host are alike.
struct DriveDescription {
  std::string name;
  int count = 0;                    // of a host; 0: none
  std::int64_t capacity_bytes = 0;  // of one, as the rates
  double read_bytes_per_s = 0;
  double written_bytes_per_s = 0;
  double mixed_bytes_per_s = 0;      // half read and half written, in sum; 0: not known
  std::int64_t endurance_bytes = 0;  // written in its life; 0: not known
};

struct MachineDescription {
  std::string name;
  std::vector<std::string> sources;  // of its figures
  int hosts = 1;
  int ranks_per_host = 1;
  double network_bytes_per_s = 0;  // of one rank and direction; 0 with one rank
  GpuDescription gpu;
  HostDescription host;
  DriveDescription drive;

  int ranks() const { return hosts * ranks_per_host; }
};

// Throws ConfigError naming the file and the key.
MachineDescription read_machine_description(const std::string& path);
MachineDescription parse_machine_description(std::string_view text);

// Of rank 0, and what its collectives take.
comm::Topology topology_of(const MachineDescription& machine);
comm::Communicator::StagingBytes comm_staging_of(const MachineDescription& machine,
                                                 const std::string& device);  // "cuda", "cpu"

// What `options` mean on that machine, but for budgets that are not given: the device is its GPU or
// its cores, threads are its cores. Throws ConfigError for options that contradict it.
Options options_for(const MachineDescription& machine, const Options& options);

// Of one rank, for the shapes and the arithmetic of a setup made with options_for().
MachineRates rates_of(const MachineDescription& machine, const RunSetup& setup);

}  // namespace strata::engine
