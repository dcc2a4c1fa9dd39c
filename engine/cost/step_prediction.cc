#include "engine/cost/step_prediction.h"

#include <algorithm>
#include <numeric>

#include "engine/cost/step_prediction_activations.h"
#include "engine/cost/step_prediction_gradients.h"
#include "engine/cost/step_prediction_machine.h"
#include "engine/cost/step_prediction_optimizer.h"
#include "engine/cost/step_prediction_weights.h"
#include "kernels/base/bytes.h"
#include "offload/plan_traffic.h"

namespace strata::engine {

namespace {

using offload::UpdateTime;

// Of many passes the first and the last ones are simulated; those between are like kRepeatedPass.
constexpr int kPassesMax = 8;
constexpr int kRepeatedPass = 4;
// Of many micro-batches in a pass neighbours are taken together.
constexpr std::int64_t kTurnsMax = 256;  // of a pass at a layer

// The main thread: Trainer::step() and ModelPass (engine/step/), with all that they set in motion.
class PredictedRun {
 public:
  PredictedRun(const RunSetup& setup, const MachineRates& rates, const ComputeCost& cost)
      : setup_(setup),
        cost_(cost),
        walk_(largest_walk(setup.shape, setup.index)),
        machine_(rates, setup.threads),
        optimizer_(setup, machine_),
        weights_(setup, machine_, main_, compute_),
        gradients_(setup, machine_, main_, compute_, optimizer_),
        activations_(setup, machine_, main_, compute_) {
    for (const int unit : setup.index.token_chunks) embedding_elements_ += elements(unit);
    if (setup.index.learned_positions()) embedding_elements_ += elements(setup.index.positions);
    for (const int unit : setup.index.head_chunks) head_elements_ += elements(unit);
    if (deferred()) optimizer_.begin_step(main_);
    end_of_phase_.push_back(machine_.now(main_));
  }

  void step() {
    machine_.wait(compute_, {main_.last});
    machine_.copy_to_device(compute_, batch_bytes(offload::Link::to_device));
    if (deferred()) update_on_device();
    if (!deferred()) optimizer_.begin_step(main_);
    const int passes = simulated_passes();
    for (int pass = 0; pass < passes; ++pass) {
      set_micro_batches(pass <= kRepeatedPass ? pass : setup_.batch.passes() - (passes - pass));
      forward(deferred() && pass == 0 ? &optimizer_ : nullptr);
      end_of_phase_.push_back(machine_.now(compute_));
      backward({0, pass == 0, pass + 1 == passes});
      if (pass + 1 < passes) end_of_phase_.push_back(machine_.now(compute_));
    }
    if (!deferred()) update_on_device();
    machine_.copy_from_device(compute_, batch_bytes(offload::Link::from_device));
    machine_.wait(main_, {compute_.last});
    gradients_.finish();
    optimizer_.finish(main_);
    weights_.flush();
    end_of_phase_.push_back(machine_.now(main_));
    if (deferred()) optimizer_.begin_step(main_);
  }

  // Of the last step.
  StepPrediction result() const {
    const std::vector<PredictedMachine::Busy> ends = machine_.run(end_of_phase_);
    const int passes = simulated_passes();
    std::size_t end = ends.size() - static_cast<std::size_t>(offload::kPhases * passes);
    StepPrediction prediction;
    for (int pass = 0; pass < passes; ++pass) {
      const double times = pass == kRepeatedPass ? setup_.batch.passes() - passes + 1 : 1;
      for (double& phase_s : prediction.phases_s) {
        const double seconds = times * (ends[end].time_s - ends[end - 1].time_s);
        phase_s += seconds;
        prediction.step_s += seconds;
        for (std::size_t r = 0; r < prediction.busy_s.size(); ++r) {
          prediction.busy_s[r] += times * (ends[end].busy_s[r] - ends[end - 1].busy_s[r]);
        }
        ++end;
      }
    }
    return prediction;
  }

 private:
  int simulated_passes() const { return std::min(setup_.batch.passes(), kPassesMax); }
  bool deferred() const { return setup_.plan.update == UpdateTime::deferred; }
  double elements(int unit) const {
    return static_cast<double>(setup_.plan.units[static_cast<std::size_t>(unit)].elements);
  }

  // Of all units that a GPU updates, at once: whenever it does, it computes nothing then.
  void update_on_device() {
    machine_.pass_over_on_device(compute_,
                                 static_cast<double>(offload::device_update_bytes(setup_.plan)));
  }

  double batch_bytes(offload::Link link) const {
    std::int64_t bytes = 0;
    for (const offload::PhaseTraffic& phase : setup_.plan.traffic) {
      bytes += phase.moved.bytes(link, offload::MovedKind::batch);
    }
    return static_cast<double>(bytes);
  }

  // The turns of a pass at a layer, each as the micro-batches that it computes.
  void set_micro_batches(int pass) {
    const BatchLayout& batch = setup_.batch;
    const std::int64_t first = pass * batch.pass_size * batch.micro_batch;
    const std::int64_t end = std::min(first + batch.pass_size * batch.micro_batch,
                                      batch.sequences(setup_.topology.rank));
    const std::int64_t micro_batches = ceil_div(end - first, batch.micro_batch);
    const std::int64_t sequences = ceil_div(micro_batches, kTurnsMax) * batch.micro_batch;
    turns_.clear();
    for (std::int64_t at = first; at < end; at += sequences) {
      turns_.push_back(static_cast<double>(std::min(sequences, end - at)) /
                       static_cast<double>(batch.micro_batch));
    }
    records_per_turn_ = static_cast<double>(micro_batches) / static_cast<double>(turns_.size());
  }

  // Every micro-batch passes through what is leased: a turn of its records and the compute. Where
  // records never move, nothing comes between them.
  void visit(double seconds) {
    if (setup_.plan.activations == offload::Tier::device) {
      const double parts = std::accumulate(turns_.begin(), turns_.end(), 0.0);
      return machine_.compute(compute_, parts * seconds);
    }
    for (const double part : turns_) {
      activations_.open_turn();
      machine_.compute(compute_, part * seconds);
      activations_.end_turn();
    }
  }

  void use(double seconds) {
    weights_.acquire();
    visit(seconds);
    weights_.release();
  }

  void use_for_gradient(double seconds, const offload::Contribution& contribution) {
    weights_.acquire();
    add_gradient(seconds, contribution);
    weights_.release();
  }

  void add_gradient(double seconds, const offload::Contribution& contribution) {
    gradients_.open();
    visit(seconds);
    gradients_.close(contribution);
  }

  void begin_walk(PredictedOptimizer* updates) {
    const offload::Plan& plan = setup_.plan;
    weights_.begin(plan.uses, updates);
    if (plan.activations == offload::Tier::device) return activations_.begin({}, 1);
    WalkShape shape = walk_;
    shape.micro_batches = static_cast<int>(turns_.size());
    if (shape.micro_batches == shape.micro_batches_max) return activations_.begin(plan.accesses, 1);
    activations_.begin(offload::schedule_records(record_walk(shape, WalkKind::training).accesses,
                                                 plan.record_slots, plan.record_lookahead()),
                       records_per_turn_);
  }

  double share_of_embedding(int unit) const { return elements(unit) / embedding_elements_; }
  double share_of_head(int unit) const { return elements(unit) / head_elements_; }

  void forward(PredictedOptimizer* updates) {
    const UnitIndex& index = setup_.index;
    begin_walk(updates);
    const auto embed = [&](int unit) {
      use(cost_.embedding_forward.total() * share_of_embedding(unit));
    };
    if (index.learned_positions()) embed(index.positions);
    for (const int unit : index.token_chunks) embed(unit);
    for (std::size_t block = 0; block < index.blocks.size(); ++block) {
      use(cost_.block_forward.total());
    }
    use(0);  // the final norm, which the head's cost includes
    for (const int unit : index.head_chunks) {
      use(cost_.head_forward.total() * share_of_head(unit));
    }
  }

  // `order`: whether it is the first and the last pass.
  void backward(offload::Contribution order) {
    const UnitIndex& index = setup_.index;
    const auto contribution = [&](int unit) {
      return offload::Contribution{unit, order.first, order.last};
    };
    for (const int unit : index.head_chunks) {
      use_for_gradient(cost_.head_backward.total() * share_of_head(unit),
                       {unit, order.first, order.last && !index.tied()});
    }
    use_for_gradient(0, contribution(index.final_norm));
    const double block_s = cost_.block_recompute.total() + cost_.block_backward.total();
    for (std::size_t block = index.blocks.size(); block-- > 0;) {
      use_for_gradient(block_s, contribution(index.blocks[block]));
    }
    const auto embedding_s = [&](int unit) {
      return cost_.embedding_backward.total() * share_of_embedding(unit);
    };
    if (index.learned_positions()) {
      add_gradient(embedding_s(index.positions), contribution(index.positions));
    }
    for (const int unit : index.token_chunks) {
      add_gradient(embedding_s(unit), {unit, order.first && !index.tied(), order.last});
    }
    weights_.end();
    activations_.end();
  }

  const RunSetup& setup_;
  const ComputeCost& cost_;
  WalkShape walk_;
  PredictedMachine machine_;
  Lane main_;
  Lane compute_;
  PredictedOptimizer optimizer_;
  PredictedWeights weights_;
  PredictedGradients gradients_;
  PredictedActivations activations_;
  double embedding_elements_ = 0;
  double head_elements_ = 0;
  std::vector<double> turns_;
  double records_per_turn_ = 1;
  std::vector<Moment> end_of_phase_;
};

// What the cores do beside ops is measured as its fastest run, too, and meets what slows ops down
// where they are the cores' work.
MachineRates slowed_down(MachineRates rates, double slowdown) {
  if (rates.gpu) return rates;
  rates.memory_bytes_per_s /= slowdown;
  rates.core_memory_bytes_per_s /= slowdown;
  rates.optimizer_bytes_per_s /= slowdown;
  rates.checksum_bytes_per_s /= slowdown;
  return rates;
}

// The second is like those that follow: every step begins with all state on its tier.
constexpr int kSteps = 2;

}  // namespace

Resource StepPrediction::limit() const {
  return static_cast<Resource>(std::max_element(busy_s.begin(), busy_s.end()) - busy_s.begin());
}

StepPrediction predict_step(const RunSetup& setup, const MachineRates& rates,
                            const ComputeCost& compute) {
  ComputeCost expected = compute;
  for (WorkSeconds* const part : expected.parts()) *part = *part * compute.slowdown;
  const MachineRates expected_rates = slowed_down(rates, compute.slowdown);
  PredictedRun run(setup, expected_rates, expected);
  for (int step = 0; step < kSteps; ++step) run.step();
  return run.result();
}

}  // namespace strata::engine
