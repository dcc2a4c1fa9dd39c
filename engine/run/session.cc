#include "engine/run/session.h"

#include "engine/run/ranks.h"
#include "engine/run/run_store.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kTraceSpansMax = 1 << 20;

io::EngineChoice engine_for(const RunSetup& setup) {
  if (setup.plan.total_bytes(offload::Tier::nvme) == 0) return {};
  return io::choose_engine(io::parse_engine(setup.options.io_engine));
}

// The directories may have filled up since they were checked.
std::unique_ptr<io::Volume> make_store(const RunSetup& setup, const std::string& run_id,
                                       const io::EngineChoice& engine, Tracer* tracer) {
  try {
    return create_store(setup, run_id, engine, tracer);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", store_option(setup.options), e.what());
  }
}

}  // namespace

Session::Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure)
    : comm_(comm),
      failure_(failure),
      tracer_(setup.options.trace.empty() ? nullptr : std::make_unique<Tracer>(kTraceSpansMax)),
      workers_(setup.threads, setup.cpus),
      host_budget_("host memory", setup.plan.host_memory_bytes),
      device_({setup.plan.device_memory_bytes, -1}, host_budget_, workers_, failure, tracer_.get()),
      engine_choice_(agree(comm, [&] { return engine_for(setup); })),
      volume_(agree(comm, [&, id = shared_run_id(comm)] {
        return make_store(setup, id, engine_choice_, tracer_.get());
      })) {
  const Dtype arithmetic = setup.options.matmul_dtype == "f32" ? Dtype::f32 : setup.shape.precision;
  ops::attach_cpu_ops(device_, setup.isa, setup.op_limits, arithmetic, {});
  rates_ = measure_machine(setup, device_, volume_.get(), comm);
}

std::vector<std::string> Session::store_files() const {
  std::vector<std::string> paths;
  if (volume_ == nullptr) return paths;
  for (int d = 0; d < volume_->devices(); ++d) paths.push_back(volume_->file(d).device_path(0));
  return paths;
}

TrainerParts Session::trainer_parts() {
  return {device_, workers_, comm_, failure_, volume_.get(), tracer_.get()};
}

}  // namespace strata::engine
