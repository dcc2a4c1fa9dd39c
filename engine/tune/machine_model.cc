#include "engine/tune/machine_model.h"

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

const MicroBatchModel& model_of(const MachineModel& machine, const RunSetup& setup) {
  const auto found = machine.of_micro_batch.find(setup.options.micro_batch);
  STRATA_CHECK(found != machine.of_micro_batch.end(), "a micro-batch that was not measured");
  return found->second;
}

ComputeCost compute_of(const MicroBatchModel& model, const RunSetup& setup) {
  ComputeCost compute = model.compute;
  if (!setup.shape.recompute) compute.block_recompute = {};
  return compute;
}

}  // namespace

StepModel MachineModel::step_model() const {
  return {[this](const RunSetup& setup) {
            const MicroBatchModel& model = model_of(*this, setup);
            return step_cost(setup, model.rates, compute_of(model, setup));
          },
          [this](const RunSetup& setup) {
            const MicroBatchModel& model = model_of(*this, setup);
            return predict_step(setup, model.rates, compute_of(model, setup));
          }};
}

}  // namespace strata::engine
