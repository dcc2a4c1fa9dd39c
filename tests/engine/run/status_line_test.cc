// The status line on a terminal, which is left as it was, and elsewhere.
#include "engine/run/status_line.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "offload/comm/communicator.h"

namespace strata::engine {
namespace {

// Standard error goes to a terminal of 20 columns, or to a pipe, while it lives.
class Captured {
 public:
  explicit Captured(bool terminal) : kept_(::dup(STDERR_FILENO)) {
    const winsize size{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(terminal ? ::openpty(&ends_[0], &ends_[1], nullptr, nullptr, &size) : ::pipe(ends_),
              0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~Captured() {
    ::dup2(kept_, STDERR_FILENO);
    for (const int descriptor : {kept_, ends_[0], ends_[1]}) ::close(descriptor);
  }
  // What came since the last time.
  std::string text() const {
    constexpr char kMark = '\0';
    EXPECT_EQ(::write(STDERR_FILENO, &kMark, 1), 1);
    std::string text;
    for (char c = kMark; ::read(ends_[0], &c, 1) == 1 && c != kMark;) text += c;
    return text;
  }

 private:
  int kept_;
  int ends_[2] = {-1, -1};
};

TEST(StatusLine, OnATerminalALineIsOverwrittenAndErased) {
  const auto comm = comm::make_single_rank_communicator();
  const Captured captured(true);
  {
    StatusLine status(*comm);
    status.show("one");
    EXPECT_EQ(captured.text(), "\r\x1b[Kstrata: one");
    status.show("two, longer than a line");
    EXPECT_EQ(captured.text(), "\r\x1b[Kstrata: two, longer");
    EXPECT_FALSE(status.is_due());
  }
  EXPECT_EQ(captured.text(), "\r\x1b[K");
}

TEST(StatusLine, ElsewhereNothingIsSaidOfWhatIsShort) {
  const auto comm = comm::make_single_rank_communicator();
  const Captured captured(false);
  { StatusLine(*comm).show("one"); }
  EXPECT_EQ(captured.text(), "");
}

}  // namespace
}  // namespace strata::engine
