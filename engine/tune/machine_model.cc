#include "engine/tune/machine_model.h"

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

MicroBatchModel model_of(const MachineModel& machine, const RunSetup& setup) {
  const auto found = machine.of_micro_batch.find(setup.options.micro_batch);
  STRATA_CHECK(found != machine.of_micro_batch.end(), "a micro-batch that was not measured");
  MicroBatchModel model = found->second;
  if (!setup.shape.recompute) model.compute.block_recompute = {};
  const auto update = machine.optimizer_bytes_per_s.find(formats_of(setup.options));
  if (update != machine.optimizer_bytes_per_s.end()) {
    model.rates.optimizer_bytes_per_s = update->second;
  }
  return model;
}

}  // namespace

StateFormats formats_of(const Options& options) { return {options.moments, options.grad_dtype}; }

StepModel MachineModel::step_model() const {
  return {[this](const RunSetup& setup) {
            const MicroBatchModel model = model_of(*this, setup);
            return step_cost(setup, model.rates, model.compute);
          },
          [this](const RunSetup& setup) {
            const MicroBatchModel model = model_of(*this, setup);
            return predict_step(setup, model.rates, model.compute);
          }};
}

}  // namespace strata::engine
