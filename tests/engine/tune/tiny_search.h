// A search over the plans of a tiny model on a machine with invented rates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/options/option_parse.h"
#include "engine/tune/plan_search.h"
#include "kernels/base/bytes.h"

namespace strata::test {

inline constexpr std::int64_t kTinyBlock = 4096;

// 0.4 million parameters, 4.6 MiB of state.
inline const std::vector<std::string> kTinyModel = {
    "--model", "gpt2:layers=6,hidden=64,heads=2,context=32", "--seq-len", "32", "--global-batch",
    "4"};

inline engine::Options tiny_options(std::vector<std::string> more) {
  more.insert(more.begin(), kTinyModel.begin(), kTinyModel.end());
  return engine::parse_options({"tune", "", engine::CommandKind::tune}, more);
}

inline engine::SearchPlace tiny_place() {
  engine::SearchPlace place;
  place.block_elements = kTinyBlock;
  place.memory_bytes = 256 * kMiB;
  place.storage_bytes = kGiB;
  return place;
}

struct InventedMachine {
  double drive_bytes_per_s = 1e9;
  double link_bytes_per_s = 1e10;  // between host and device, by the cores
  double row_s = 1e-6;             // of compute, and 1.5 as much without batching
  double micro_batch_s = 1e-5;

  engine::StepCost cost(const engine::RunSetup& setup) const {
    engine::StepCost cost;
    const auto rows = static_cast<double>(setup.batch.step_rows_max());
    const auto micro_batches = static_cast<double>(setup.batch.micro_batches_max());
    for (std::size_t p = 0; p < cost.phases.size(); ++p) {
      const offload::PhaseTraffic& traffic = setup.plan.traffic[p];
      const auto bytes = [&](offload::Link link) {
        return static_cast<double>(traffic.bytes(link));
      };
      engine::PhaseCost& phase = cost.phases[p];
      phase[engine::Resource::nvme] =
          (bytes(offload::Link::nvme_read) + bytes(offload::Link::nvme_written)) /
          drive_bytes_per_s;
      const double repeats = p == 0 ? 1 : setup.shape.recompute ? 3 : 2;
      phase[engine::Resource::cores] =
          repeats * (rows * row_s + micro_batches * micro_batch_s) +
          (bytes(offload::Link::to_device) + bytes(offload::Link::from_device)) / link_bytes_per_s;
    }
    return cost;
  }

  engine::StepModel model() const {
    return {[*this](const engine::RunSetup& setup) { return cost(setup); },
            [*this](const engine::RunSetup& setup) {
              const double waits = 0.1 / (1 + setup.plan.prefetch);
              engine::StepPrediction prediction;
              prediction.step_s = cost(setup).bound_s() * (1 + waits);
              return prediction;
            }};
  }
};

inline std::vector<engine::RankedPlan> tiny_search(
    const std::vector<std::string>& options, const InventedMachine& machine, int count = 3,
    const engine::SearchPlace& place = tiny_place(),
    engine::Variation variation = engine::Variation::as_options_say) {
  return engine::search_plans(engine::make_search_space(tiny_options(options), place, variation),
                              place, machine.model(), count);
}

}  // namespace strata::test
