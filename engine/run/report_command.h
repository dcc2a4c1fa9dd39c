// `strata report RUN`: one HTML page of a run, also of one that is going on: curves, timelines, and
// where the time went. Changes nothing in the run's folder but the page that it writes.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError unless one run is named.
void check_report_options(const Options& options);

// Prints where the page is, and what it lacks; returns the exit code. Throws what
// read_report_data() throws, and IoError when the page cannot be written.
int run_report(const Options& options);

}  // namespace strata::engine
