// What the page of `strata report` has inline: its style sheet and its script, which reads the
// page's data (report_page.cc) and draws it.
#pragma once

namespace strata::engine {

extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace strata::engine
