// The page of `strata report`: one HTML file with everything inline, no network needed. Tables are
// HTML; curves and timelines are drawn by its script from the data that it carries as JSON.
#pragma once

#include <string>

#include "engine/profile/report_data.h"

namespace strata::engine {

std::string report_page(const ReportData& data);

}  // namespace strata::engine
