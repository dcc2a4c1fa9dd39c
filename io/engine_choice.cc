#include "io/engine_choice.h"

#include <limits>
#include <utility>

#include "io/thread_engine.h"
#include "io/uring_engine.h"
#include "io/uring_probe.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

std::string describe(const UringSupport& support) {
  if (!support.registers_buffers) {
    return "buffers cannot be registered (Linux before 5.19, or not permitted)";
  }
  if (support.locked_bytes_max == std::numeric_limits<std::int64_t>::max()) {
    return "buffers can be registered";
  }
  return fmt::format("buffers can be registered up to RLIMIT_MEMLOCK ({}; ulimit -l)",
                     format_bytes(support.locked_bytes_max));
}

}  // namespace

EngineKind parse_engine(std::string_view text) {
  if (text == "auto") return EngineKind::automatic;
  if (text == "uring") return EngineKind::uring;
  if (text == "threads") return EngineKind::threads;
  throw_error<ConfigError>("--io-engine {}: auto, uring or threads", text);
}

EngineChoice choose_engine(EngineKind wanted) {
  if (wanted == EngineKind::threads) return {EngineKind::threads, "threads: asked for"};
  const UringSupport support = probe_uring();
  if (support.usable()) {
    return {EngineKind::uring, fmt::format("uring: io_uring works here, {}", describe(support))};
  }
  if (wanted == EngineKind::uring) {
    throw_error<ConfigError>("--io-engine uring: {}; {}, or use --io-engine threads",
                             support.obstacle, support.advice);
  }
  return {EngineKind::threads, "threads: " + support.obstacle};
}

std::unique_ptr<Engine> make_engine(int descriptor, std::string path,
                                    const EngineOptions& options) {
  STRATA_CHECK(options.kind != EngineKind::automatic, "choose_engine() names one");
  if (options.kind == EngineKind::threads) {
    return std::make_unique<ThreadEngine>(descriptor, path, options.queue_depth);
  }
  return std::make_unique<UringEngine>(descriptor, std::move(path), options.queue_depth,
                                       options.timeout);
}

}  // namespace strata::io
