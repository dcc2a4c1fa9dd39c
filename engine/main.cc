#include <cstdio>
#include <exception>

#include "engine/cli.h"
#include "kernels/base/error.h"

namespace {

constexpr int kExitFailed = 1;  // the environment failed, or training cannot go on
constexpr int kExitUsage = 2;   // the options are wrong

int report(const std::exception& error, int exit_code) {
  std::fprintf(stderr, "strata: error: %s\n", error.what());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return strata::engine::run_cli({argv + 1, argv + argc});
  } catch (const strata::ConfigError& e) {
    return report(e, kExitUsage);
  } catch (const std::exception& e) {
    return report(e, kExitFailed);
  }
}
