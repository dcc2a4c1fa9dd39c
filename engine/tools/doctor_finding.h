// Finding: one line of `strata doctor`: what was looked at, what was found, and what to do about a
// shortfall.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace strata::engine {

enum class Verdict : std::uint8_t {
  ok,
  note,     // training works, but slower or with less than the machine could give
  problem,  // training cannot work until it is mended
};

const char* name_of(Verdict verdict);

struct Finding {
  std::string subject;  // "io_uring"
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string advice;  // what to do; may be empty
};

using Findings = std::vector<Finding>;

bool has_problem(std::span<const Finding> findings);

// A line each, with the advice on lines of its own, within 100 columns where words allow.
std::string findings_text(std::span<const Finding> findings);
nlohmann::json findings_json(std::span<const Finding> findings);

}  // namespace strata::engine
