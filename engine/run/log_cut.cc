#include "engine/run/log_cut.h"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "io/plain_file.h"
#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

std::optional<std::int64_t> step_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

// Not open where there is none.
std::ifstream open_log(const std::string& path) {
  std::ifstream log(path, std::ios::binary);
  if (!log && ::access(path.c_str(), F_OK) == 0) {
    throw_error<IoError>("read {}: {}", path, io::errno_text(errno));
  }
  return log;
}

constexpr std::string_view kNoValidation = "\"val_loss\":null";  // as step_json.h writes it

void add_validation(std::string& line, double loss) {
  const std::size_t at = line.find(kNoValidation);
  if (at == std::string::npos) return;
  line.replace(at, kNoValidation.size(), fmt::format("\"val_loss\":{}", loss));
}

}  // namespace

bool lacks_validation(const std::string& path, std::int64_t step) {
  std::ifstream log = open_log(path);
  for (std::string line; std::getline(log, line);) {
    if (line.find(kNoValidation) != std::string::npos && step_of(line) == step) return true;
  }
  return false;
}

void cut_log(const std::string& path, std::int64_t step, std::optional<double> validation_loss) {
  std::ifstream log = open_log(path);
  if (!log) return;
  io::FileReplacement kept(path);
  std::string line;
  for (std::int64_t number = 1; std::getline(log, line); ++number) {
    const std::optional<std::int64_t> its_step = step_of(line);
    if (!its_step && log.peek() == std::ifstream::traits_type::eof()) break;
    if (!its_step) {
      throw_error<FormatError>("{}:{}: '{}' is no line of a log; repair the file or move it away",
                               path, number, line.substr(0, 40));
    }
    if (*its_step == step && validation_loss) add_validation(line, *validation_loss);
    if (*its_step <= step) kept.write(line + "\n");
  }
  if (log.bad()) throw_error<IoError>("read {}: {}", path, io::errno_text(errno));
  kept.finish();
}

}  // namespace strata::engine
