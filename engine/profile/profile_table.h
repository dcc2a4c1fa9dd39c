// The profile of a step for people: a row for each stream, thread and drive that did anything, with
// the shares of the step's wall time that it worked and did not, and why; and what limits the run.
#pragma once

#include <string>

#include "engine/profile/kept_steps.h"
#include "engine/profile/step_profile.h"

namespace strata::engine {

// One sentence: what is at work nearly all the time, or why nothing is.
std::string limit_text(const StepProfile& profile);

// Lines, each ended: rows of shares, and below them the work of the busiest by kind.
std::string profile_table(const StepProfile& profile);

// The median and the slowest step, and what limits the run; the last line is not ended.
std::string profile_text(const KeptSteps& steps);
std::string profile_summary_json(const KeptSteps& steps);  // {"profile":{…}}, one line

}  // namespace strata::engine
