#include "engine/run/trial_runs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/run/measured_machine.h"
#include "engine/tune/command_text.h"
#include "io/file_descriptor.h"
#include "io/transfer.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

constexpr int kWarmUpSteps = 2;
constexpr int kMeasuredSteps = 3;
constexpr const char* kThisProgram = "/proc/self/exe";

Options trial_options(const Options& chosen) {
  Options trial = without_outputs(chosen);
  trial.steps = kWarmUpSteps + kMeasuredSteps;
  trial.epochs = 0;
  trial.lr_schedule = "constant";
  trial.warmup = std::string("0");
  trial.min_lr = 0;
  return trial;
}

struct Ended {
  int status = 0;  // of waitpid()
  std::string out;
  std::string err;
};

io::FileDescriptor memory_file(const char* name) {
  io::FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) throw IoError(fmt::format("memfd_create: {}", io::errno_text(errno)));
  return file;
}

std::string content_of(const io::FileDescriptor& file) {
  std::string text;
  char part[1 << 14];
  for (;;) {
    const ssize_t read = ::pread(file.get(), part, sizeof part, static_cast<off_t>(text.size()));
    if (read <= 0) return text;
    text.append(part, static_cast<std::size_t>(read));
  }
}

// It ends with this process.
Ended run_program(const std::vector<std::string>& words) {
  const io::FileDescriptor out = memory_file("trial output");
  const io::FileDescriptor err = memory_file("trial errors");
  std::string name = "strata";
  std::vector<char*> arguments = {name.data()};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw IoError(fmt::format("fork: {}", io::errno_text(errno)));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(err.get(), STDERR_FILENO);
    ::execv(kThisProgram, arguments.data());
    ::_exit(127);
  }
  Ended ended;
  while (::waitpid(child, &ended.status, 0) < 0 && errno == EINTR) continue;
  ended.out = content_of(out);
  ended.err = content_of(err);
  return ended;
}

// The last line of its errors, without what print_error() sets before it.
std::string failure_text(const Ended& ended) {
  constexpr std::string_view kBefore = "strata: error: ";
  if (WIFSIGNALED(ended.status)) return fmt::format("ended by signal {}", WTERMSIG(ended.status));
  std::istringstream lines(ended.err);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  if (last.empty()) return fmt::format("exit status {}", WEXITSTATUS(ended.status));
  return last.starts_with(kBefore) ? last.substr(kBefore.size()) : last;
}

// Of the steps in the program's output that are counted.
std::vector<double> steps_of(const std::string& out) {
  std::vector<double> step_s;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step_s") || !json["step_s"].is_number()) continue;
    if (json.value("step", 0) > kWarmUpSteps) step_s.push_back(json["step_s"]);
  }
  return step_s;
}

}  // namespace

bool run_trial(const RankedPlan& plan, MeasuredSteps& measured) {
  std::vector<std::string> words = train_words(trial_options(plan.options));
  words.emplace_back("--json");
  const Ended ended = run_program(words);
  const std::vector<double> step_s = steps_of(ended.out);
  if (ended.status != 0 || step_s.empty()) {
    measured.failures.push_back(failure_text(ended));
    return false;
  }
  measured.add_run(step_s);
  return true;
}

}  // namespace strata::engine
