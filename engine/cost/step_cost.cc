#include "engine/cost/step_cost.h"

#include <algorithm>
#include <cmath>

#include "models/decoder_block.h"
#include "models/output_head.h"
#include "offload/plan_traffic.h"

namespace strata::engine {

namespace {

using offload::Link;
using offload::Phase;
using offload::PhaseTraffic;
using offload::Tier;

double over(double amount, double per_s) { return per_s > 0 ? amount / per_s : 0.0; }
double over(std::int64_t bytes, double bytes_per_s) {
  return over(static_cast<double>(bytes), bytes_per_s);
}

class CostCounter {
 public:
  CostCounter(const RunSetup& setup, const MachineRates& rates) : setup_(setup), rates_(rates) {}

  StepCost run(const ComputeCost& compute, double rows_share) {
    add_compute(compute, rows_share);
    for (const Phase phase : {Phase::forward, Phase::backward}) add_traffic(phase);
    if (rates_.gpu) add_device_passes();
    add(Phase::backward, CoreWork::gradients, gradients_s());
    cost_.moved_s = moved_s();
    return cost_;
  }

 private:
  PhaseCost& phase(Phase phase) { return cost_.phases[static_cast<std::size_t>(phase)]; }
  // Seconds of all workers, which are a share of the cores.
  void add(Phase phase, CoreWork work, double workers_s) {
    this->phase(phase).add(work, workers_s * rates_.workers_share);
  }

  // The step's micro-batches, the last one as the part of a full one that it is.
  void add_compute(const ComputeCost& compute, double rows_share) {
    const double micro_batches = static_cast<double>(setup_.batch.sequences(setup_.topology.rank)) /
                                 static_cast<double>(setup_.batch.micro_batch);
    const auto of_step = [&](WorkSeconds work) {
      work = work * (micro_batches * rows_share);
      work[Work::attention] *= setup_.options.pack ? 0 : rows_share;
      return work;
    };
    const auto layers = static_cast<double>(setup_.model.layers);
    WorkSeconds forward = compute.block_forward * layers;
    forward += compute.embedding_forward;
    forward += compute.head_forward;
    WorkSeconds backward = compute.block_backward * layers;
    backward += compute.head_backward;
    backward += compute.embedding_backward;
    const WorkSeconds recompute = of_step(compute.block_recompute * layers);
    add_work(Phase::forward, of_step(forward), {});
    add_work(Phase::backward, of_step(backward), recompute);
  }

  void add_work(Phase phase, const WorkSeconds& work, const WorkSeconds& recompute) {
    const double ops_s = work.total() + recompute.total();
    if (rates_.gpu) {
      this->phase(phase)[Resource::gpu] = ops_s;
      return;
    }
    if (rates_.workers_share < 1) this->phase(phase)[Resource::workers] = ops_s;
    add(phase, CoreWork::matmul, work[Work::matmul]);
    add(phase, CoreWork::attention, work[Work::attention]);
    add(phase, CoreWork::elementwise, work[Work::elementwise]);
    add(phase, CoreWork::recompute, recompute.total());
  }

  void add_traffic(Phase phase) {
    const PhaseTraffic& traffic = setup_.plan.phase(phase);
    PhaseCost& cost = this->phase(phase);
    const std::int64_t nvme_bytes =
        traffic.bytes(Link::nvme_read) + traffic.bytes(Link::nvme_written);
    const std::int64_t received = traffic.bytes(Link::gathered) + traffic.bytes(Link::reduced);
    cost[Resource::nvme] =
        rates_.nvme.seconds(static_cast<double>(traffic.bytes(Link::nvme_read)),
                            static_cast<double>(traffic.bytes(Link::nvme_written)));
    cost[Resource::network] = over(received, rates_.network.bytes_per_s);
    add(phase, CoreWork::optimizer, over(traffic.optimizer_bytes, rates_.optimizer_bytes_per_s));
    add(phase, CoreWork::checksums, over(nvme_bytes, rates_.checksum_bytes_per_s));
    add(phase, CoreWork::io,
        static_cast<double>(nvme_bytes) * rates_.nvme.core_s_per_byte_least / setup_.threads);
    if (rates_.gpu) {
      cost[Resource::to_device] =
          over(traffic.bytes(Link::to_device), rates_.gpu->to_device_bytes_per_s);
      cost[Resource::from_device] =
          over(traffic.bytes(Link::from_device), rates_.gpu->from_device_bytes_per_s);
      return;
    }
    const std::int64_t copied =
        traffic.bytes(Link::to_device) + traffic.bytes(Link::from_device) + received;
    add(phase, CoreWork::copies, over(2 * copied, rates_.memory_bytes_per_s));
  }

  // Over what a GPU holds, beside compute.
  void add_device_passes() {
    const offload::Plan& plan = setup_.plan;
    const auto add = [&](Phase phase, std::int64_t bytes) {
      this->phase(phase)[Resource::gpu] += over(bytes, rates_.gpu->memory_bytes_per_s);
    };
    const bool deferred = plan.update == offload::UpdateTime::deferred;
    add(deferred ? Phase::forward : Phase::backward, offload::device_update_bytes(plan));
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      if (!plan.units[u].updated_on_device) continue;
      add(Phase::backward, offload::device_gradient_bytes(setup_.plan_input, plan, u));
    }
    const std::int64_t forward_uses = setup_.plan_input.forward_uses;
    for (std::int64_t i = 0; i < std::ssize(plan.uses); ++i) {
      const offload::ScheduledUse& use = plan.uses[static_cast<std::size_t>(i)];
      const offload::UnitPlan& unit = plan.units[static_cast<std::size_t>(use.unit)];
      const bool copied =
          use.slot >= 0 && !use.hit && unit.tier(offload::StateKind::weights) == Tier::device;
      if (!copied) continue;
      add(i < forward_uses ? Phase::forward : Phase::backward,
          2 * plan.passes * plan.shard_bytes(unit, offload::StateKind::weights));
    }
  }

  // On the cores each contribution but the first is added to a sum in f32 (two reads, a write); the
  // final one is rounded, where gradients are bf16, and read for the norm.
  double gradients_s() const {
    const std::int64_t final_bytes = bytes_of(setup_.plan.dtypes.gradients);
    const std::int64_t rounding_bytes =
        setup_.plan.dtypes.gradients == Dtype::bf16 ? 4 + final_bytes : 0;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < setup_.plan.units.size(); ++i) {
      const offload::UnitPlan& unit = setup_.plan.units[i];
      if (unit.frozen || unit.updated_on_device) continue;
      const std::int64_t sums =
          setup_.plan_input.units[i].gradient_contributions * setup_.plan.passes - 1;
      bytes += unit.shard_elements * (12 * sums + rounding_bytes + final_bytes);
    }
    return over(bytes, rates_.memory_bytes_per_s);
  }

  // See StepCost. A resource that moves work out of a phase may be the longest of the other one.
  double moved_s() const {
    const auto& [first, second] = cost_.phases;
    const std::array<double, kResources> movable_s = this->movable_s();
    double least_s = 0;
    for (std::size_t r = 0; r < kResources; ++r) {
      for (std::size_t s = 0; s < kResources; ++s) {
        const double both_s = r == s ? first.seconds[r] + second.seconds[s]
                                     : std::max(0.0, first.seconds[r] - movable_s[r]) +
                                           std::max(0.0, second.seconds[s] - movable_s[s]);
        least_s = std::max(least_s, both_s);
      }
    }
    return first.bound_s() + second.bound_s() - least_s;
  }

  // Of each resource's time, what can lie in the other phase: that of the bytes that are held at
  // every turn of a pass, to backward and to the next forward. Compute does not move.
  std::array<double, kResources> movable_s() const {
    // Of a byte of gradients, the most that one may have ahead: received, copied, added to a sum,
    // rounded and read, each as often as it is read or written.
    constexpr double kPassesOverMemory = 2 + 2 + 3 + 2;
    const double bytes = 2.0 * setup_.plan.passes * static_cast<double>(held_bytes());
    PhaseCost cost;
    cost[Resource::nvme] =
        over(bytes, std::min(rates_.nvme.read_bytes_per_s, rates_.nvme.written_bytes_per_s));
    cost[Resource::network] = over(bytes, rates_.network.bytes_per_s);
    cost[Resource::cores] =
        rates_.workers_share * (over(bytes, rates_.checksum_bytes_per_s) +
                                over(kPassesOverMemory * bytes, rates_.memory_bytes_per_s) +
                                bytes * rates_.nvme.core_s_per_byte_least / setup_.threads);
    if (rates_.gpu) {
      cost[Resource::to_device] = over(bytes, rates_.gpu->to_device_bytes_per_s);
      cost[Resource::from_device] = over(bytes, rates_.gpu->from_device_bytes_per_s);
    }
    return cost.seconds;
  }

  // Staging, and the device's slots.
  std::int64_t held_bytes() const {
    std::int64_t bytes = setup_.plan.record_slots.bytes();
    for (const offload::PlannedBuffer& buffer : setup_.plan.buffers) {
      const bool slots = buffer.tag == "gathered units" || buffer.tag == "gradient slots";
      if (slots || (buffer.tier == Tier::host && buffer.tag.ends_with(" staging"))) {
        bytes += buffer.bytes;
      }
    }
    return bytes;
  }

  const RunSetup& setup_;
  const MachineRates& rates_;
  StepCost cost_;
};

}  // namespace

const char* name_of(Resource resource) {
  constexpr std::array<const char*, kResources> kNames = {
      "GPU", "workers", "cores", "to device", "from device", "NVMe", "network"};
  return kNames[static_cast<std::size_t>(resource)];
}

const char* name_of(CoreWork work) {
  constexpr std::array<const char*, kCoreWorks> kNames = {"matmul",    "attention", "elementwise",
                                                          "recompute", "optimizer", "gradients",
                                                          "checksums", "copies",    "I/O"};
  return kNames[static_cast<std::size_t>(work)];
}

void PhaseCost::add(CoreWork work, double work_s) {
  cores[static_cast<std::size_t>(work)] += work_s;
  (*this)[Resource::cores] += work_s;
}

Resource PhaseCost::longest() const {
  return static_cast<Resource>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

Resource StepCost::limit() const {
  const PhaseCost& longer =
      phases[0].bound_s() > phases[1].bound_s() ? phases[0] : phases[1];  // of two, it is most
  return longer.longest();
}

StepCost step_cost(const RunSetup& setup, const MachineRates& rates, const ComputeCost& compute,
                   double rows_share) {
  return CostCounter(setup, rates).run(compute, rows_share);
}

double useful_flops(const RunSetup& setup) {
  const models::Batch batch{setup.batch.sequences(setup.topology.rank), setup.batch.seq_len};
  const models::DecoderBlock block(setup.model, setup.shape.precision, batch);
  const models::OutputHead head(setup.model, setup.shape.precision, batch);
  return 3 * (static_cast<double>(setup.model.layers) * block.forward_flops(batch) +
              head.forward_flops(batch));
}

}  // namespace strata::engine
