#include "engine/run/report_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "engine/profile/report_data.h"
#include "engine/profile/report_page.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

void check_report_options(const Options& options) {
  if (options.arguments.size() != 1) {
    throw_error<ConfigError>("report needs the folder of one run: strata report RUN");
  }
}

int run_report(const Options& options) {
  const std::string& folder = options.arguments.front();
  const ReportData data = read_report_data(folder);
  const std::string path = options.output.empty()
                               ? (std::filesystem::path(folder) / "report.html").string()
                               : options.output;
  io::replace_file(path, report_page(data));
  fmt::print("wrote {}\n", path);
  for (const std::string& sentence : data.missing) fmt::print("  {}\n", sentence);
  return 0;
}

}  // namespace strata::engine
