// Ranges of options' values, for checks of them (option_check.h). Throw ConfigError naming the
// option.
#pragma once

#include <optional>

#include "kernels/base/error.h"

namespace strata::engine {

template <typename T>
void require_at_least(const char* option, T value, T least) {
  if (value < least) {
    throw_error<ConfigError>("--{} is {}, but must be at least {}", option, value, least);
  }
}

template <typename T>
void require_at_least(const char* option, const std::optional<T>& value, T least) {
  if (value) require_at_least(option, *value, least);
}

inline void require_within(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    throw_error<ConfigError>("--{} is {}, but must be from {} to {}", option, value, least, most);
  }
}

}  // namespace strata::engine
