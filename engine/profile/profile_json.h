// Profiles as JSON: a line of profile.jsonl for each step, and timeline.json with the spans of the
// slowest and the median step. Seconds and bytes. docs/profiling.md describes both.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/profile/kept_steps.h"
#include "engine/profile/step_profile.h"

namespace strata::engine {

inline constexpr const char* kProfileFile = "profile.jsonl";
inline constexpr const char* kTimelineFile = "timeline.json";

// What a rank holds at the end of a step, in bytes.
struct HeldMemory {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t nvme = 0;
  std::int64_t resident = 0;  // of the process, as the system counts it
};

// A line for the heap to leave alone, of a step with up to 40 rows.
using ProfileLine = fmt::basic_memory_buffer<char, 8192>;

// {"step":3,"wall_s":1.5,…,"rows":{"compute":{"work":1.2,"read":0.1},…}}\n; what is 0 is left out.
void append_profile_line(ProfileLine& line, const StepProfile& profile, const HeldMemory& held);

// {"rows":{"compute":{"work":{"linear":1.1,…},"idle":{"read":0.1,…}},…},…}.
std::string profile_json(const StepProfile& profile);

// {"limit":TEXT,"median":STEP,"slowest":STEP}, where STEP has its profile and its spans: of one row
// and name those that lie closer together than a 20,000th of the step are one, and of the result
// the longest 20,000 are there. `tracks`: the tracer's.
std::string timeline_json(const KeptSteps& steps, const std::vector<std::string>& tracks);

}  // namespace strata::engine
