#include "io/fault_storage.h"

#include <string>
#include <utility>

#include "io/engine_storage.h"
#include "io/fault_engine.h"
#include "kernels/base/bytes.h"

namespace strata::io {
namespace {

std::unique_ptr<Storage> storage_over(std::unique_ptr<FaultEngine> engine, std::string path,
                                      std::chrono::milliseconds timeout) {
  EngineStorageOptions options;
  options.path = std::move(path);
  options.capacity_bytes = engine->capacity_bytes();
  options.alignment_bytes = kPageBytes;
  options.timeout = timeout;
  return std::make_unique<EngineStorage>(std::move(options), std::move(engine), nullptr);
}

}  // namespace

std::unique_ptr<Storage> make_memory_storage(std::int64_t capacity_bytes) {
  auto engine = std::make_unique<FaultEngine>(capacity_bytes, FaultRules{});
  std::string description = fmt::format("memory, {}", format_bytes(engine->capacity_bytes()));
  return storage_over(std::move(engine), std::move(description), std::chrono::seconds(30));
}

std::unique_ptr<Storage> make_fault_storage(std::int64_t capacity_bytes, const FaultRules& rules,
                                            std::chrono::milliseconds timeout) {
  auto engine = std::make_unique<FaultEngine>(capacity_bytes, rules);
  std::string description = engine->description();
  return storage_over(std::move(engine), std::move(description), timeout);
}

}  // namespace strata::io
