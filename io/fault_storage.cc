#include "io/fault_storage.h"

#include <utility>

#include "io/fault_engine.h"

namespace strata::io {

std::unique_ptr<Storage> make_memory_storage(std::int64_t capacity_bytes) {
  return make_fault_storage(capacity_bytes, {});
}

std::unique_ptr<EngineStorage> make_fault_storage(std::int64_t capacity_bytes,
                                                  const FaultRules& rules,
                                                  std::chrono::milliseconds timeout) {
  auto engine = std::make_unique<FaultEngine>(capacity_bytes, rules);
  EngineStorageOptions options;
  options.path = engine->description();
  options.capacity_bytes = engine->capacity_bytes();
  options.alignment_bytes = kPageBytes;
  options.timeout = timeout;
  return std::make_unique<EngineStorage>(std::move(options), std::move(engine), nullptr);
}

}  // namespace strata::io
