// What data a run was begun with, as its folder records it (data.json): a run that goes on must not
// find others under their names, which would change its weights and the length of its epochs.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/data/data_digest.h"
#include "engine/options/options.h"

namespace strata::engine {

nlohmann::json data_json(const DataDigest& digest);

// Of --run DIR --resume, whose --data these are now. Throws ConfigError naming all that differs
// from the folder's record, unless there is none or --allow-change names data; FormatError for a
// damaged record.
void require_recorded_data(const Options& options, const DataDigest& digest);

}  // namespace strata::engine
