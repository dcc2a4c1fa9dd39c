#include "engine/tools/doctor_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/options/json_text.h"
#include "engine/tools/doctor_machine.h"
#include "engine/tools/doctor_software.h"
#include "engine/tools/doctor_storage.h"
#include "io/uring_probe.h"

namespace strata::engine {
namespace {

constexpr int kExitProblem = 1;

void append(Findings& findings, Findings more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

}  // namespace

int run_doctor(const Options& options) {
  Findings findings = examine_machine();
  append(findings, examine_engines(io::probe_uring()));
  append(findings, examine_directories(options.nvme));
  findings.push_back(examine_gpu());
  findings.push_back(examine_mpi());
  const bool can_train = !has_problem(findings);
  if (options.json) {
    const nlohmann::json json = {{"can_train", can_train}, {"findings", findings_json(findings)}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print(
        "{}\n{}\n", findings_text(findings),
        can_train ? "Training works here." : "Training does not work here: see the problems.");
  }
  return can_train ? 0 : kExitProblem;
}

}  // namespace strata::engine
