// The message with which a group fails, or "" when it does not.
#pragma once

#include <string>

#include "io/storage.h"
#include "kernels/base/error.h"

namespace strata::io {

inline std::string failure_of(IoGroup& group) {
  try {
    group.wait();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

}  // namespace strata::io
