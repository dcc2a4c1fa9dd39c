// Texts that ranks tell each other at set-up. Collective; of any length.
#pragma once

#include <string>
#include <vector>

#include "offload/comm/communicator.h"

namespace strata::engine {

// What `root` says, on every rank.
std::string broadcast_text(comm::Communicator& comm, std::string text, int root = 0);

// What every rank says, in rank order.
std::vector<std::string> gather_texts(comm::Communicator& comm, const std::string& mine);

}  // namespace strata::engine
