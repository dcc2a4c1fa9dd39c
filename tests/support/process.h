// Runs a program and keeps what it printed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace strata::test {

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
  std::int64_t peak_resident_bytes = 0;  // as the system counts it, also for descendants
};

// A program in the background. Does not outlive this object.
class Process {
 public:
  // arguments[0] is the program, searched for in PATH.
  Process(const std::vector<std::string>& arguments, const std::string& working_folder)
      : out_(::memfd_create("stdout", MFD_CLOEXEC)), err_(::memfd_create("stderr", MFD_CLOEXEC)) {
    std::vector<char*> argv;
    for (const std::string& text : arguments) argv.push_back(const_cast<char*>(text.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGINT, SIG_DFL);  // ignored where a shell put the tests into the background
      ::dup2(out_, STDOUT_FILENO);
      ::dup2(err_, STDERR_FILENO);
      if (::chdir(working_folder.c_str()) == 0) ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  // SIGTERM comes first: mpirun passes the end on to its ranks.
  ~Process() {
    for (const int signal : {SIGTERM, SIGKILL}) {
      if (ended_) break;
      ::kill(pid_, signal);
      ended_ = ended_within(std::chrono::seconds(5));
    }
    ::close(out_);
    ::close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return contents_of(out_); }  // so far
  std::string err() const { return contents_of(err_); }

  // Waits for its end; past the limit the test has failed.
  ProcessResult wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    ProcessResult result;
    ended_ = ended_ || ended_within(limit);
    if (!ended_) {
      ADD_FAILURE() << "still running after " << limit.count() << " s";
    } else if (WIFEXITED(status_)) {
      result.exit_code = WEXITSTATUS(status_);
    }
    result.peak_resident_bytes = std::int64_t{usage_.ru_maxrss} * 1024;
    result.out = out();
    result.err = err();
    return result;
  }

 private:
  bool ended_within(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (::wait4(pid_, &status_, WNOHANG, &usage_) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  static std::string contents_of(int descriptor) {
    struct stat status {};
    EXPECT_EQ(::fstat(descriptor, &status), 0);
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t read = ::pread(descriptor, text.data(), text.size(), 0);
    EXPECT_EQ(read, static_cast<ssize_t>(text.size()));
    return text;
  }

  int out_;
  int err_;
  pid_t pid_ = -1;
  int status_ = 0;
  rusage usage_{};
  bool ended_ = false;
};

inline ProcessResult run_process(const std::vector<std::string>& arguments,
                                 const std::string& working_folder) {
  return Process(arguments, working_folder).wait();
}

}  // namespace strata::test
