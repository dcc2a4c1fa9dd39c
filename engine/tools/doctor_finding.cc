#include "engine/tools/doctor_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/options/wrapped_text.h"

namespace strata::engine {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kTextColumn = 27;  // behind verdict and subject

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::note:
      return "note";
    case Verdict::problem:
      return "problem";
  }
  return "";
}

bool has_problem(std::span<const Finding> findings) {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.verdict == Verdict::problem; });
}

std::string findings_text(std::span<const Finding> findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<8} {:<17} ", name_of(finding.verdict), finding.subject);
    append_wrapped(out, finding.found, kTextColumn, kWidth);
    if (finding.advice.empty()) continue;
    out += std::string(kTextColumn, ' ');
    append_wrapped(out, "-> " + finding.advice, kTextColumn, kWidth);
  }
  return out;
}

nlohmann::json findings_json(std::span<const Finding> findings) {
  nlohmann::json json = nlohmann::json::array();
  for (const Finding& finding : findings) {
    json.push_back({{"subject", finding.subject},
                    {"verdict", name_of(finding.verdict)},
                    {"found", finding.found},
                    {"advice", finding.advice}});
  }
  return json;
}

}  // namespace strata::engine
