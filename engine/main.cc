#include <exception>

#include "engine/run/cli.h"
#include "engine/run/error_report.h"

int main(int argc, char** argv) {
  try {
    return strata::engine::run_cli({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    strata::engine::print_error(error.what());
    return strata::engine::exit_code_of(error);
  }
}
