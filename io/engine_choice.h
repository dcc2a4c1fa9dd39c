// Which engine carries requests to the kernel (--io-engine), and why.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/engine.h"

namespace strata::io {

enum class EngineKind : std::uint8_t { automatic, uring, threads };

// "auto", "uring", "threads". Throws ConfigError.
EngineKind parse_engine(std::string_view text);

struct EngineChoice {
  EngineKind kind = EngineKind::uring;  // never automatic
  // One line for people, such as "threads: io_uring_setup: Operation not permitted (errno 1): a
  // seccomp filter, as container runtimes have".
  std::string reason;
};

// How one engine is used.
struct EngineOptions {
  EngineKind kind = EngineKind::uring;
  int queue_depth = 64;                      // requests in flight
  std::int64_t request_bytes_max = 1 << 20;  // longer requests are split into this
  std::chrono::milliseconds timeout{30000};
};

// Probes this machine. Throws ConfigError when `wanted` is uring and the system refuses it, saying
// what to do.
EngineChoice choose_engine(EngineKind wanted);

// An engine of a kind that choose_engine() named. `descriptor` stays the caller's and must be open
// until the engine has ended; `path` is for errors. Throws IoError.
std::unique_ptr<Engine> make_engine(int descriptor, std::string path, const EngineOptions& options);

}  // namespace strata::io
