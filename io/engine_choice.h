// Which engine carries requests to the kernel (--io-engine), and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::io {

enum class EngineKind : std::uint8_t { automatic, uring, threads };

// "auto", "uring", "threads". Throws ConfigError.
EngineKind parse_engine(std::string_view text);

struct EngineChoice {
  EngineKind kind = EngineKind::uring;  // never automatic
  // One line for people, such as "threads: io_uring_setup is refused here (EPERM: seccomp or sysctl
  // kernel.io_uring_disabled)".
  std::string reason;
};

// Probes this machine. Throws ConfigError when `wanted` is uring and the system refuses it, saying
// what to do.
EngineChoice choose_engine(EngineKind wanted);

}  // namespace strata::io
