#include "engine/step/evaluation.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/base/bytes.h"

namespace strata::engine {

namespace {

// As they lie in device memory.
struct Sums {
  double loss = 0;
  ops::TargetCounts counts;
};
static_assert(sizeof(Sums) <= Device::kAlignmentBytes);

EvaluationTotals sum_over_ranks(comm::Communicator& comm, const Sums& mine) {
  std::vector<Sums> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  EvaluationTotals totals;
  for (const Sums& each : all) {
    totals.loss_sum += each.loss;
    totals.targets += each.counts.targets;
    totals.correct += each.counts.correct;
  }
  return totals;
}

}  // namespace

double EvaluationTotals::perplexity() const { return std::exp(loss()); }

EvaluationTotals evaluate(const EvaluationParts& parts, const Samples& data, std::int64_t sequences,
                          offload::PendingUpdates* updates) {
  const std::int64_t rank = parts.comm.rank();
  const std::int64_t ranks = parts.comm.world_size();
  const std::int64_t first = sequences * rank / ranks;
  const std::int64_t last = sequences * (rank + 1) / ranks;
  const std::int64_t per_pass = parts.layout.pass_micro_batches_max() * parts.layout.micro_batch;
  const std::int64_t passes = ceil_div(ceil_div(sequences, ranks), per_pass);
  auto* const sums = reinterpret_cast<Sums*>(parts.results.data());
  parts.compute.fill_zero(sums, sizeof(Sums));
  for (std::int64_t p = 0; p < passes; ++p) {
    const std::int64_t from = std::min(first + p * per_pass, last);
    const LoadedBatches loaded = parts.loader.load(
        data, [](std::int64_t s) { return s; }, from, std::min(per_pass, last - from));
    parts.pass.evaluate(loaded.batches, &sums->loss, p == 0 ? updates : nullptr, &sums->counts);
    parts.compute.synchronize();
  }
  parts.compute.copy(parts.host_results.data(), sums, sizeof(Sums));
  parts.compute.synchronize();
  return sum_over_ranks(parts.comm, *parts.host_results.as<Sums>());
}

}  // namespace strata::engine
