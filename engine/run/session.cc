#include "engine/run/session.h"

#include <algorithm>
#include <string>

#include "engine/plan/recorded_arithmetic.h"
#include "engine/plan/write_forecast.h"
#include "engine/run/run_profile.h"
#include "engine/step/agreement.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kTraceSpansMax = 1 << 20;
constexpr std::int64_t kStepSpansMax = 1 << 18;

// Null: nobody wants spans.
std::unique_ptr<Tracer> make_tracer(const RunSetup& setup) {
  const bool is_traced = !setup.options.trace.empty();
  if (!is_traced && !is_profiled(setup)) return nullptr;
  return std::make_unique<Tracer>(is_traced ? kTraceSpansMax : 0,
                                  is_profiled(setup) ? kStepSpansMax : 0);
}

io::EngineChoice engine_for(const RunSetup& setup) {
  if (setup.plan.total_bytes(offload::Tier::nvme) == 0) return {};
  return io::choose_engine(io::parse_engine(setup.options.io_engine));
}

// The directories may have filled up since they were checked.
RunStore make_store(const RunSetup& setup, const std::string& run_id,
                    const io::EngineChoice& engine, Tracer* tracer) {
  try {
    return create_store(setup, run_id, engine, tracer);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", store_option(setup.options), e.what());
  }
}

// In each of the volume's directories, as of now.
std::vector<io::StorageTraffic> traffic_of(const io::Volume* volume) {
  std::vector<io::StorageTraffic> traffic;
  for (int d = 0; volume != nullptr && d < volume->devices(); ++d) {
    traffic.push_back(volume->device_traffic(d));
  }
  return traffic;
}

}  // namespace

RunStore make_new_store(const RunSetup& setup, comm::Communicator& comm,
                        const io::EngineChoice& engine, Tracer* tracer) {
  return agree(comm,
               [&, id = shared_run_id(comm)] { return make_store(setup, id, engine, tracer); });
}

Session::Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure,
                 const OpenStore& open_store)
    : setup_(setup),
      comm_(comm),
      failure_(failure),
      tracer_(make_tracer(setup)),
      compute_workers_(setup.threads, setup.cpus),
      streaming_workers_(setup.threads, setup.cpus),
      compute_device_(setup, compute_workers_, failure, tracer_.get()),
      engine_choice_(agree(comm, [&] { return engine_for(setup); })),
      store_(open_store ? open_store(engine_choice_, tracer_.get())
                        : make_new_store(setup, comm, engine_choice_, tracer_.get())) {
  measure();
}

// A store that holds a run's state is not for measuring the drives on.
void Session::measure() {
  const auto kept = agree(comm_, [&]() -> std::optional<RecordedArithmetic> {
    if (comm_.rank() != 0) return std::nullopt;
    return arithmetic_to_keep(setup_);
  });
  const bool trains = setup_.shape.purpose == Purpose::training;  // drives count for its bound
  std::unique_ptr<io::Volume> scratch;
  if (volume() != nullptr && !store_.is_new) {
    const std::int64_t capacity = volume()->capacity_bytes();
    scratch = scratch_beside(*volume(), std::min(capacity, measuring_bytes(capacity)),
                             engine_options(setup_.options, engine_choice_));
  }
  io::Volume* const measured = store_.is_new ? volume() : scratch.get();
  const std::vector<io::StorageTraffic> before = traffic_of(measured);
  rates_ = measure_machine(setup_, device(), compute_workers_, trains ? measured : nullptr, comm_,
                           kept ? &*kept : nullptr);
  measuring_traffic_ = {traffic_of(measured), scratch != nullptr};
  for (std::size_t d = 0; d < before.size(); ++d) measuring_traffic_.by_directory[d] -= before[d];
  if (trains) compute_ = measure_compute(setup_, device());
}

StepCost Session::bound(double rows_share) const {
  return step_cost(setup_, rates_, compute_, rows_share);
}

TrainerParts Session::trainer_parts() {
  return {device(), streaming_workers_, comm_, failure_, volume(), tracer_.get()};
}

}  // namespace strata::engine
