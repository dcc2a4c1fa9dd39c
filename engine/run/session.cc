#include "engine/run/session.h"

#include <chrono>

#include "engine/run/ranks.h"
#include "io/file_storage.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kTraceSpansMax = 1 << 20;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::unique_ptr<io::Storage> open_storage(const RunSetup& setup, Tracer* tracer) {
  const std::int64_t bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (bytes == 0) return nullptr;
  io::FileStorageOptions options;
  options.directory = nvme_directory(setup);
  options.capacity_bytes = bytes;
  options.timeout = milliseconds(setup.options.io_timeout);
  return io::open_file_storage(options, tracer);
}

}  // namespace

std::string nvme_directory(const RunSetup& setup) {
  if (!setup.options.nvme.empty()) return setup.options.nvme;
  if (!setup.options.run.empty()) return setup.options.run;
  throw_error<ConfigError>(
      "the plan keeps {} on NVMe, but no directory is given for it; use --nvme DIR or --run DIR",
      format_bytes(setup.plan.total_bytes(offload::Tier::nvme)));
}

Session::Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure)
    : comm_(comm),
      failure_(failure),
      tracer_(setup.options.trace.empty() ? nullptr : std::make_unique<Tracer>(kTraceSpansMax)),
      workers_(setup.threads, setup.cpus),
      host_budget_("host memory", setup.plan.host_memory_bytes),
      device_({setup.plan.device_memory_bytes, -1}, host_budget_, workers_, failure, tracer_.get()),
      storage_(agree(comm, [&] { return open_storage(setup, tracer_.get()); })) {
  const Dtype arithmetic = setup.options.matmul_dtype == "f32" ? Dtype::f32 : setup.shape.precision;
  ops::attach_cpu_ops(device_, setup.isa, setup.op_limits, arithmetic, {});
  rates_ = measure_machine(setup, device_, storage_.get(), comm);
}

TrainerParts Session::trainer_parts() {
  return {device_, workers_, comm_, failure_, storage_.get(), tracer_.get()};
}

}  // namespace strata::engine
