#include "engine/run/run_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/options/count_text.h"

namespace strata::engine {

std::int64_t step_count(const RunSetup& setup, const TrainingData& data) {
  if (setup.options.steps > 0) return setup.options.steps;
  const double sequences =
      setup.options.epochs * static_cast<double>(data.train == nullptr ? 0 : data.train->count());
  return static_cast<std::int64_t>(
      std::ceil(sequences / static_cast<double>(setup.batch.global_batch)));
}

std::int64_t tokens_before(const Samples& data, const SampleOrder& order, std::int64_t position) {
  const std::int64_t epochs = position / data.count();
  const std::int64_t rest = position % data.count();
  std::int64_t tokens = epochs * data.tokens();
  if (data.layout() == SampleLayout::full) return tokens + rest * data.rows(0);
  for (std::int64_t p = position - rest; p < position; ++p) tokens += data.rows(order.at(p));
  return tokens;
}

bool evaluates(const RunSetup& setup, const TrainingData& data, std::int64_t step) {
  if (data.validation == nullptr) return false;
  const std::int64_t every = setup.options.eval_every;
  return step == step_count(setup, data) || (every > 0 && step % every == 0);
}

std::int64_t evaluation_count(const RunSetup& setup, const TrainingData& data) {
  if (data.validation == nullptr) return 0;
  const std::int64_t steps = step_count(setup, data);
  const std::int64_t every = setup.options.eval_every;
  const std::int64_t between = every > 0 ? (steps - 1) / every : 0;  // the last step's is its own
  return 1 + between + 1;
}

std::int64_t evaluation_sequences(const RunSetup& setup, const TrainingData& data) {
  if (data.validation == nullptr) return 0;
  // Not the micro-batch of this many ranks, so that the loss is of the same data on any number.
  const std::int64_t wanted = setup.options.eval_batches * setup.options.micro_batch;
  const std::int64_t all = data.validation->count();
  return wanted == 0 ? all : std::min(wanted, all);
}

std::string evaluated_part(const RunSetup& setup, const TrainingData& data) {
  const std::int64_t taken = evaluation_sequences(setup, data);
  if (data.validation == nullptr || taken == data.validation->count()) return "";
  return fmt::format("{} of {}", taken, count_text(data.validation->count(), "sequence"));
}

}  // namespace strata::engine
