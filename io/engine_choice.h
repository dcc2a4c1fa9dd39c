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

// Probes this machine. Throws ConfigError when `wanted` is uring and the system refuses it, saying
// what to do.
EngineChoice choose_engine(EngineKind wanted);

// An engine of a kind that choose_engine() named. `descriptor` stays the caller's and must be open
// until the engine has ended; `path` is for errors. At most `queue_depth` requests may be in
// flight. Throws IoError.
std::unique_ptr<Engine> make_engine(EngineKind kind, int descriptor, std::string path,
                                    int queue_depth, std::chrono::milliseconds timeout);

}  // namespace strata::io
