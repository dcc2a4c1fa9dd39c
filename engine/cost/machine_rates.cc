#include "engine/cost/machine_rates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/cost/measured_rates.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

namespace {

// bf16 unless f32 won more of the shapes (or the operands are f32).
Dtype majority(const std::vector<ops::MatmulChoice>& choices) {
  const auto bf16 = std::count_if(choices.begin(), choices.end(), [](const auto& choice) {
    return choice.arithmetic == Dtype::bf16;
  });
  return 2 * bf16 >= static_cast<std::ptrdiff_t>(choices.size()) ? Dtype::bf16 : Dtype::f32;
}

// The recorded choices with the speeds that they have here.
std::vector<ops::MatmulChoice> measure_recorded(const RunSetup& setup, CpuDevice& device,
                                                std::span<const ops::MatmulShape> shapes,
                                                const RecordedArithmetic& recorded) {
  std::vector<ops::MatmulChoice> choices;
  for (const ops::MatmulShape& shape : shapes) {
    const ops::MatmulChoice* const choice = recorded.choice_of(shape);
    STRATA_CHECK(choice != nullptr, "see require_arithmetic()");
    choices.push_back(
        ops::measure_matmuls(device, {&shape, 1}, setup.shape.precision, &choice->arithmetic)
            .front());
  }
  return choices;
}

void choose_matmuls(const RunSetup& setup, CpuDevice& device, comm::Communicator& comm,
                    const RecordedArithmetic* recorded, MachineRates& rates) {
  const std::optional<Dtype> forced = forced_arithmetic(setup, device);
  const std::vector<ops::MatmulShape> shapes = matmul_shapes(setup.shape);
  rates.matmuls.resize(shapes.size());
  if (comm.rank() == 0) {
    rates.matmuls = recorded != nullptr
                        ? measure_recorded(setup, device, shapes, *recorded)
                        : ops::measure_matmuls(device, shapes, setup.shape.precision,
                                               forced ? &*forced : nullptr);
    rates.default_arithmetic = recorded != nullptr ? recorded->default_arithmetic
                                                   : forced.value_or(majority(rates.matmuls));
  }
  comm.broadcast(std::as_writable_bytes(std::span(rates.matmuls)), 0);
  comm.broadcast(std::as_writable_bytes(std::span(&rates.default_arithmetic, 1)), 0);
  ops::set_matmul_choices(device, rates.matmuls, rates.default_arithmetic);
}

}  // namespace

std::optional<Dtype> forced_arithmetic(const RunSetup& setup, CpuDevice& device) {
  if (setup.options.matmul_dtype == "auto") return std::nullopt;
  if (setup.options.matmul_dtype == "f32") return Dtype::f32;
  if (!ops::multiplies_bf16(device)) {
    throw_error<ConfigError>(
        "--matmul-dtype bf16: {} cannot multiply bf16 on this machine or with this --isa; use f32 "
        "or auto",
        ops::matmul_library());
  }
  return Dtype::bf16;
}

double DriveRates::seconds(double read_bytes, double written_bytes) const {
  if (!in_use()) return 0;
  const double apart = read_bytes / read_bytes_per_s + written_bytes / written_bytes_per_s;
  if (mixed_bytes_per_s == 0) return apart;
  const double both = std::min(read_bytes, written_bytes);
  return std::min(apart, 2 * both / mixed_bytes_per_s + (read_bytes - both) / read_bytes_per_s +
                             (written_bytes - both) / written_bytes_per_s);
}

double MachineRates::matmul_peak_flops_per_s() const {
  double peak = 0;
  for (const ops::MatmulChoice& choice : matmuls) peak = std::max(peak, choice.flops_per_s);
  return peak;
}

double workers_share(const RunSetup& setup) {
  const comm::Topology& topology = setup.topology;
  const int processors = cpu_share(topology.local_rank, topology.local_world_size).threads;
  return std::min(1.0, static_cast<double>(setup.threads) / processors);
}

nlohmann::json arithmetic_json(const RunSetup& setup, const MachineRates& rates) {
  return arithmetic_json(RecordedArithmetic{name_of(setup.isa), matmul_library(setup.device),
                                            name_of(setup.shape.precision),
                                            rates.default_arithmetic, rates.matmuls});
}

MachineRates measure_machine(const RunSetup& setup, Device& device, WorkerSet& workers,
                             io::Storage* storage, comm::Communicator& comm,
                             const RecordedArithmetic* recorded) {
  MachineRates rates;
  if (device.kind() == DeviceKind::cpu) {
    choose_matmuls(setup, static_cast<CpuDevice&>(device), comm, recorded, rates);
  } else {
    rates.default_arithmetic = setup.shape.precision;
    rates.matmuls = measure_gpu_matmuls(setup, device);
  }
  if (setup.shape.purpose == Purpose::inference) return rates;
  if (device.kind() == DeviceKind::cuda) {
    rates.gpu = measure_gpu_links(setup, device);
    rates.gpu->flops_per_s = rates.matmul_peak_flops_per_s();
  }
  const CoreMeasurement cores(setup, device, workers);
  rates.workers_share = workers_share(setup);
  rates.memory_bytes_per_s = cores.memory();
  rates.core_memory_bytes_per_s = cores.core_memory();
  rates.checksum_bytes_per_s = cores.checksums();
  rates.optimizer_bytes_per_s = cores.optimizer();
  rates.network = measure_network(setup, device, comm);
  comm.barrier();  // ranks share drives and processors, and measure them as they train: together
  if (storage != nullptr) rates.nvme = measure_drives(setup, device, workers, *storage);
  return rates;
}

}  // namespace strata::engine
