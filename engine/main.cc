#include <csignal>
#include <cstdio>
#include <exception>

#include "engine/run/cli.h"
#include "engine/run/error_report.h"
#include "kernels/base/error.h"

int main(int argc, char** argv) {
  // A closed pipe or a size limit is an error of a write, reported like any other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int exit_code = strata::engine::run_cli({argv + 1, argv + argc});
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw strata::IoError("cannot write to standard output");
    }
    return exit_code;
  } catch (const std::exception& error) {
    strata::engine::report(error, -1);
    return strata::engine::exit_code_of(error);
  }
}
