#include "engine/run/eval_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/data/training_data.h"
#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/plan/device_choice.h"
#include "engine/run/error_report.h"
#include "engine/run/inference_run.h"
#include "engine/run/tokenizer_check.h"
#include "engine/step/agreement.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

using Clock = std::chrono::steady_clock;

struct EvaluationData {
  TrainingData data;
  std::int64_t samples = 0;       // to evaluate
  std::string tokenizer_warning;  // "": checked, or there is none
};

EvaluationData open_data(const RunSetup& setup) {
  const Options& options = setup.options;
  EvaluationData opened;
  opened.data = open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
  opened.tokenizer_warning = check_tokenizer(setup, opened.data);
  const std::int64_t all = opened.data.train->count();
  // More micro-batches than there are would be more sequences than a number holds.
  const std::int64_t batches = ceil_div(all, options.micro_batch);
  const bool takes_all = options.eval_batches == 0 || options.eval_batches >= batches;
  opened.samples = takes_all ? all : options.eval_batches * options.micro_batch;
  return opened;
}

void print_start(const ReadableModel& model, const EvaluationData& opened) {
  const RunSetup& setup = model.setup;
  fmt::print("model      {}: {} parameters\nweights    {}; {}\ndata       {}\ndevice     {}\n",
             setup.model.name, with_separators(setup.model.parameters()), model.weights_text(),
             name_of(setup.shape.precision),
             fmt::format("{}; {}", opened.data.file.tokens->description(),
                         opened.data.train->description()),
             device_choice(setup));
  std::fflush(stdout);
}

void require_loss(const EvaluationTotals& totals, const std::string& data) {
  if (totals.targets == 0) {
    throw_error<ConfigError>("--data {}: no token of what is evaluated has a loss", data);
  }
  if (!std::isfinite(totals.loss())) {
    throw_error<Error>("the model's loss is not finite ({}): its weights are broken",
                       std::abs(totals.loss()));  // a NaN may have a sign
  }
}

void print_result(const RunSetup& setup, const EvaluationTotals& totals, std::int64_t samples,
                  double seconds) {
  const double targets_per_s = static_cast<double>(totals.targets) / seconds;
  if (setup.options.json) {
    fmt::print("{}\n", json_text({{"loss", totals.loss()},
                                  {"perplexity", totals.perplexity()},
                                  {"accuracy", totals.accuracy()},
                                  {"targets", totals.targets},
                                  {"correct", totals.correct},
                                  {"sequences", samples},
                                  {"seconds", seconds},
                                  {"tokens_per_s", targets_per_s}}));
    return;
  }
  fmt::print(
      "loss       {:.6f} per token\nperplexity {:.4f}\naccuracy   {:.2f} % ({} of {} targets)\n"
      "speed      {} of {}, {:.0f} targets/s\n",
      totals.loss(), totals.perplexity(), 100 * totals.accuracy(), with_separators(totals.correct),
      with_separators(totals.targets), count_text(samples, "sequence"),
      fmt::format("up to {}", count_text(setup.batch.seq_len, "token")), targets_per_s);
}

}  // namespace

int run_eval(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  ReadableModel model = read_model(options, ranks);
  const EvaluationData opened = agree(comm, [&] { return open_data(model.setup); });
  require_same(comm, {{"number of sequences in its data", std::to_string(opened.samples)}});
  const bool speaks = comm.rank() == 0;
  if (speaks && !opened.tokenizer_warning.empty()) print_notice(opened.tokenizer_warning);
  if (speaks && !options.json) print_start(model, opened);
  InferenceRun run(model, ranks);
  const Clock::time_point begin = Clock::now();
  const EvaluationTotals totals = run.inference().evaluate(*opened.data.train, opened.samples);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  agree(comm, [&] { require_loss(totals, options.data); });
  if (speaks) print_result(run.setup(), totals, opened.samples, seconds);
  return 0;
}

}  // namespace strata::engine
