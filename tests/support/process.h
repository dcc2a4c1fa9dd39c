// Runs a program and keeps what it printed.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace strata::test {

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

inline std::string contents_of_descriptor(int descriptor) {
  std::string text(static_cast<std::size_t>(::lseek(descriptor, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(descriptor, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

// arguments[0] is the program's path. Waits for its end.
inline ProcessResult run_process(const std::vector<std::string>& arguments,
                                 const std::string& working_folder) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int out = ::memfd_create("stdout", 0);
  const int err = ::memfd_create("stderr", 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (::chdir(working_folder.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ProcessResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.out = contents_of_descriptor(out);
  result.err = contents_of_descriptor(err);
  ::close(out);
  ::close(err);
  return result;
}

}  // namespace strata::test
