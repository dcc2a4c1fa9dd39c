// Expectations on texts and error messages, shared by the tests of engine/.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/error.h"

namespace strata::engine {

// EXPECT_PRED2(contains, text, part) shows both when it fails.
inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The message of the E that `action` throws; "no error" if it throws none.
template <typename E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace strata::engine
