// The text of the error that `action` ends in, to assert that it names what it should.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace strata::test {

template <typename E, typename Action>
std::string error_text(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error of the expected type";
  return "";
}

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace strata::test
