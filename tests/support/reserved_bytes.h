// What a plan reserves in a tier, and what a budget holds, by tag: the two are equal in a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/base/budget.h"
#include "offload/plan.h"

namespace strata::test {

inline std::map<std::string, std::int64_t> planned_bytes(const offload::Plan& plan,
                                                         offload::Tier tier) {
  std::map<std::string, std::int64_t> bytes;
  for (const offload::PlannedBuffer& buffer : plan.buffers) {
    if (buffer.tier == tier) bytes[buffer.tag] += buffer.bytes;
  }
  return bytes;
}

inline std::map<std::string, std::int64_t> held_bytes(const Budget& budget) {
  std::map<std::string, std::int64_t> bytes;
  for (const Budget::Entry& entry : budget.entries()) {
    // The plan asks ops for one number.
    const std::string tag = entry.tag.ends_with(" scratch") ? "op scratch" : entry.tag;
    if (entry.bytes > 0) bytes[tag] += entry.bytes;
  }
  return bytes;
}

}  // namespace strata::test
