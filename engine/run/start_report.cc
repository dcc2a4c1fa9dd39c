#include "engine/run/start_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "engine/cost/cost_report.h"
#include "engine/options/count_text.h"
#include "engine/options/duration_text.h"
#include "engine/options/option_help.h"
#include "engine/options/wrapped_text.h"
#include "engine/plan/plan_report.h"
#include "engine/run/nvme_ledger.h"
#include "engine/run/pretrained.h"

namespace strata::engine {

namespace {

constexpr std::size_t kIndent = 11;
constexpr std::size_t kColumns = 100;

// "label      line\n", further lines below the first. Wrapped only where `columns` says so: most
// have paths or commands to be copied.
std::string labelled(std::string_view label, std::string_view lines,
                     std::size_t columns = std::string::npos) {
  std::string text;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    text += fmt::format("{:<{}}", text.empty() ? label : "", kIndent);
    append_wrapped(text, line, kIndent, columns);
  }
  return text;
}

// What outlives the run, and what it goes on from.
std::string durable_text(const RunSetup& setup, const DurableRun* durable) {
  if (durable == nullptr) return "";
  std::string text;
  if (const std::string origin = durable->origin_text(); !origin.empty()) {
    text = fmt::format("goes on from {}\n", origin);
  }
  if (setup.plan.durability == offload::Durability::clean_mark) {
    return text +
           "no checkpoints (--checkpoint-every 0): only a run that stops between steps goes on";
  }
  const CheckpointInterval every =
      setup.options.checkpoint_every.value_or(kDefaultCheckpointInterval);
  return text + fmt::format("a checkpoint every {} and at the end, in {}",
                            every.steps > 0 ? count_text(every.steps, "step")
                                            : duration_text(every.seconds),
                            setup.options.run);
}

std::string device_text(const RunSetup& setup, const Device& device) {
  const std::string text = fmt::format("{}, {}; {}", device.description(), name_of(setup.isa),
                                       matmul_library(setup.device));
  return setup.device.reason.empty() ? text
                                     : fmt::format("{}\nauto: {}", text, setup.device.reason);
}

}  // namespace

void print_start(const StartReport& report) {
  const auto& [setup, data, session, durable, pretrained, binding, tokenizer, other_stores] =
      report;
  std::string text;
  if (durable == nullptr || durable->origin_text().empty()) {
    text = labelled("weights", weights_text(setup, pretrained));
  }
  text += run_description(setup);
  text += labelled("data", data.description());
  text += labelled("tokenizer", tokenizer);
  text += labelled("device", device_text(setup, session.device()));
  if (setup.topology.world_size > 1) {
    text += labelled("ranks", fmt::format("{} on {}, {} each", setup.topology.world_size,
                                          count_text(setup.topology.hosts, "host"),
                                          count_text(setup.threads, "thread")));
  }
  text += labelled("binding", binding);
  text += labelled("writes", NvmeLedger(setup, data, session.volume()).forecast_text(), kColumns);
  text += labelled("left over", other_stores);
  text += labelled("durable", durable_text(setup, durable));
  text += labelled("options", options_summary(setup.options));
  fmt::print("{}\n{}\n", text, plan_table(setup));
  std::fflush(stdout);
}

void print_bound(const Session& session) {
  fmt::print("{}\n", bound_table(session.bound()));
  std::fflush(stdout);
}

void print_storage(Session& session) {
  if (session.volume() == nullptr) return;
  fmt::print("{}{}\n", labelled("storage", session.volume()->description()),
             labelled("I/O", session.engine_choice().reason));
  std::fflush(stdout);
}

}  // namespace strata::engine
