// The lock of a run's folder: of one process, named, and freed however that ends.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "engine/checkpoint/run_lock.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

TEST(RunLock, NamesItsProcess) {
  const TemporaryFolder folder;
  const RunLock lock(folder.path());
  EXPECT_TRUE(contents_of(folder.path("lock"))
                  .starts_with("process " + std::to_string(::getpid()) + " on "));
}

// Holds the lock in another process until that is killed.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const RunLock lock(folder);
      (void)!::write(ends[1], "x", 1);
      for (;;) ::pause();
    }
    char locked;
    EXPECT_EQ(::read(ends[0], &locked, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Holder() { kill(); }

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_ = 0;
};

TEST(RunLock, IsRefusedToASecondProcessUntilTheFirstIsDead) {
  const TemporaryFolder folder;
  Holder holder(folder.path());
  const std::string name = "in use by process " + std::to_string(holder.process()) + " on ";
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { RunLock lock(folder.path()); }), name);
  holder.kill();
  EXPECT_NO_THROW(RunLock(folder.path()));
}

TEST(RunLock, AFolderThatIsMissingIsNamed) {
  EXPECT_PRED2(mentions, error_text<IoError>([] { RunLock lock("/nonexistent"); }),
               "create /nonexistent/lock: No such file");
}

}  // namespace
}  // namespace strata::engine
