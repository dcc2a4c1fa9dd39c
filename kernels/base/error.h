// Errors, in three kinds (CONTRIBUTING.md, "Errors"):
//  (a) programmer error            STRATA_CHECK, on in every build: prints and aborts;
//  (b) the environment failed      one of the exceptions below, caught once in main();
//  (c) an expected outcome         a [[nodiscard]] return value, never an exception.
// Threads other than main() hand an exception on through a FailureLatch (failure_latch.h).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace strata {

// Base of everything main() reports. what() is one line: it names the file, option or operation
// at fault and says what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An I/O operation failed; names operation, path, offset, bytes and errno.
class IoError : public Error {
 public:
  using Error::Error;
};

// A reservation does not fit the budget of its tier.
class OutOfBudget : public Error {
 public:
  using Error::Error;
};

// An option, a config key or a combination of them is wrong.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// A file is not in the format its name or header promises.
class FormatError : public Error {
 public:
  using Error::Error;
};

// A rank is dead, stuck or disagrees.
class CommError : public Error {
 public:
  using Error::Error;
};

// A call of CUDA failed; names the call, and the error's name and text.
class CudaError : public Error {
 public:
  using Error::Error;
};

// Training cannot go on (a non-finite loss, a master outside its domain).
class TrainingError : public Error {
 public:
  using Error::Error;
};

// throw_error<IoError>("read {}: {}", path, reason)
template <typename E, typename... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace strata

// STRATA_CHECK(condition) or STRATA_CHECK(condition, "format {}", value)
#define STRATA_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::strata::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
