// Storage in memory: one that works, and one that misbehaves on purpose (fault_engine.h).
//
// Both are an EngineStorage, so that its splitting, continuation, retries and timeouts are at work
// in every test on them. Alignment is a page, the strictest of any drive. Errors name the seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "io/engine_storage.h"
#include "io/fault_rules.h"

namespace strata::io {

// `capacity_bytes` is rounded up to whole pages.
std::unique_ptr<Storage> make_memory_storage(std::int64_t capacity_bytes);

std::unique_ptr<EngineStorage> make_fault_storage(
    std::int64_t capacity_bytes, const FaultRules& rules,
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace strata::io
