#include <gtest/gtest.h>

#include <exception>

int main() {
  for (const auto& instantiate : testing::instantiations) instantiate();
  std::size_t wrong = 0;
  for (const testing::Case& test : testing::cases) {
    testing::failed = false;
    try {
      test.run();
    } catch (const std::exception& error) {
      testing::Failure("", 0, error.what()) = testing::Message();
    }
    if (!testing::failed) continue;
    ++wrong;
    std::printf("[  FAILED  ] %s\n", test.name.c_str());
  }
  std::printf("[==========] %zu tests, %zu failed\n", testing::cases.size(), wrong);
  return wrong == 0 && !testing::cases.empty() ? 0 : 1;
}
