// Progress in its three styles: what a line says, which steps are shown, and that it allocates
// nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/run/progress.h"
#include "kernels/base/error.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::allocation_count;
using test::error_text;
using test::mentions;

constexpr std::int64_t kNvmeBytes = 3ll << 30;

// What is written to `write_end` can be read at `read_end`.
struct Channel {
  int read_end = -1;
  int write_end = -1;

  ~Channel() {
    ::close(read_end);
    ::close(write_end);
  }
  // All that was written so far, less than the channel holds. A mark of our own ends it, since what
  // goes through a terminal arrives with delay.
  std::string read_all() const {
    constexpr char kMark = '\0';
    EXPECT_EQ(::write(write_end, &kMark, 1), 1);
    std::string text;
    for (char c = kMark; ::read(read_end, &c, 1) == 1 && c != kMark;) text += c;
    return text;
  }
};

void open_pipe(Channel& channel) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  channel.read_end = ends[0];
  channel.write_end = ends[1];
}

void open_terminal(Channel& channel, unsigned short columns) {
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&channel.read_end, &channel.write_end, nullptr, nullptr, &size), 0);
}

StepRecord record_of(std::int64_t step, double step_s) {
  StepRecord record;
  record.step = step;
  record.loss = 3.14159;
  record.targets = 100;
  record.lr = 3e-4;
  record.tokens_per_s = 12345;
  record.step_s = step_s;
  record.bound_s = step_s / 2;
  record.device_peak_bytes = 512 << 20;
  record.host_peak_bytes = 1 << 30;
  return record;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Progress, APlainLineSaysEverything) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 1001, kNvmeBytes);
  StepRecord record = record_of(1, 4.0);
  record.grad_norm = 1.5;
  record.val_loss = 2.5;
  progress.show(record);
  EXPECT_EQ(out.read_all(),
            "step 1/1001  loss 3.1416  val 2.5000  lr 3.00e-04  norm 1.5  12345 tok/s  4.00 s  "
            "2.00 x bound  left 66.7 min  device 512 MiB  host 1 GiB  nvme 3 GiB\n");
}

TEST(Progress, WhatIsNoNumberHasNoSign) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 2, kNvmeBytes);
  StepRecord record = record_of(1, 1);
  record.loss = -std::nan("");
  record.grad_norm = -std::nan("");
  record.skipped = true;
  progress.show(record);
  EXPECT_PRED2(mentions, out.read_all(), "loss nan  lr 3.00e-04  norm nan  skipped");
}

TEST(Progress, PaddingAndStepsWithoutTargetsAreShown) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 2, kNvmeBytes);
  StepRecord record = record_of(1, 1);
  record.padding = 0.254;
  progress.show(record);
  EXPECT_PRED2(mentions, out.read_all(), "1.00 s  25% padding");
  record.targets = 0;
  record.loss = std::nan("");
  record.skipped = true;
  progress.show(record);
  EXPECT_PRED2(mentions, out.read_all(), "step 1/2  no token is trained  lr 3.00e-04  skipped");
}

TEST(Progress, BeforeTrainingOnlyTheValidationLossIsShown) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 10, kNvmeBytes);
  StepRecord record;
  record.val_loss = 5.5451;
  progress.show(record);
  EXPECT_EQ(out.read_all(), "step 0/10  val 5.5451\n");
}

TEST(Progress, AValidationLossOfAPartSaysSo) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 10, kNvmeBytes, "16 of 298 sequences");
  StepRecord record;
  record.val_loss = 4.6254;
  progress.show(record);
  EXPECT_EQ(out.read_all(), "step 0/10  val 4.6254 (16 of 298 sequences)\n");
}

TEST(Progress, PlainLinesComeOnceASecondAndForWhatMatters) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::plain, 12, kNvmeBytes);
  for (std::int64_t step = 1; step <= 12; ++step) {
    StepRecord record = record_of(step, 0.25);
    if (step == 7) record.val_loss = 2.0;
    if (step == 8) record.skipped = true;
    progress.show(record);
  }
  // The first; 4 x 0.25 s later; the evaluation; the skipped step; 4 x 0.25 s later, which is also
  // the last.
  std::vector<std::string> shown;
  for (const std::string& line : lines_of(out.read_all())) {
    shown.push_back(line.substr(0, line.find("  ")));
  }
  EXPECT_EQ(shown, (std::vector<std::string>{"step 1/12", "step 5/12", "step 7/12", "step 8/12",
                                             "step 12/12"}));
}

TEST(Progress, OnATerminalStepsOverwriteEachOther) {
  Channel out;
  open_terminal(out, 200);
  {
    Progress progress(out.write_end, ProgressStyle::terminal, 9, kNvmeBytes);
    progress.show(record_of(1, 0.1));
    const std::string first = out.read_all();
    EXPECT_TRUE(first.starts_with("\r\x1b[Kstep 1/9  loss 3.1416")) << first;
    EXPECT_FALSE(mentions(first, "\n")) << first;

    StepRecord evaluated = record_of(2, 0.1);
    evaluated.val_loss = 2.5;
    progress.show(evaluated);
    EXPECT_TRUE(out.read_all().ends_with("\n"));

    progress.show(record_of(3, 0.1));
    out.read_all();
    progress.note("a sample");
    EXPECT_EQ(out.read_all(), "\r\x1b[Ka sample\r\n");  // the terminal adds its \r

    progress.show(record_of(4, 0.1));
    out.read_all();
  }
  EXPECT_EQ(out.read_all(), "\r\n");  // an open line is ended
}

TEST(Progress, ATerminalLineNeverWraps) {
  Channel out;
  open_terminal(out, 40);
  Progress progress(out.write_end, ProgressStyle::terminal, 9, kNvmeBytes);
  progress.show(record_of(1, 0.1));
  EXPECT_EQ(out.read_all().size(), std::string("\r\x1b[K").size() + 39);
}

TEST(Progress, JsonShowsEveryStepAndNotes) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::json, 2, kNvmeBytes);
  progress.show(record_of(1, 0.001));
  progress.note("a \"sample\"\n");
  progress.show(record_of(2, 0.001));
  progress.result("{\"loss\":2.5}");
  const std::vector<std::string> lines = lines_of(out.read_all());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(lines[0]).at("step"), 1);
  EXPECT_EQ(nlohmann::json::parse(lines[1]), (nlohmann::json{{"note", "a \"sample\"\n"}}));
  EXPECT_EQ(nlohmann::json::parse(lines[2]).at("step"), 2);
  EXPECT_EQ(lines[3], "{\"loss\":2.5}");
}

TEST(Progress, ANoteOfAnyBytesIsValidJson) {
  Channel out;
  open_pipe(out);
  Progress progress(out.write_end, ProgressStyle::json, 1, kNvmeBytes);
  progress.note("a\xff");
  EXPECT_EQ(nlohmann::json::parse(out.read_all()).at("note"), "a\xef\xbf\xbd");  // U+FFFD
}

TEST(Progress, TheStyleFollowsTheOutput) {
  Channel pipe;
  open_pipe(pipe);
  Channel terminal;
  open_terminal(terminal, 80);
  EXPECT_EQ(progress_style(pipe.write_end, false, 1), ProgressStyle::plain);
  EXPECT_EQ(progress_style(terminal.write_end, false, 1), ProgressStyle::terminal);
  EXPECT_EQ(progress_style(terminal.write_end, true, 1), ProgressStyle::json);
  // mpirun gives each rank a terminal, also where its own output is a file.
  EXPECT_EQ(progress_style(terminal.write_end, false, 2), ProgressStyle::plain);
}

TEST(Progress, AllocatesNothing) {
  Channel out;
  open_terminal(out, 300);
  for (const ProgressStyle style :
       {ProgressStyle::terminal, ProgressStyle::plain, ProgressStyle::json}) {
    Progress progress(out.write_end, style, 1000, kNvmeBytes);
    StepRecord record = record_of(999, 12.3);
    record.val_loss = record.grad_norm = 1.0 / 3;
    record.device_peak_bytes = record.host_peak_bytes = 1023ll << 40;
    const std::int64_t before = allocation_count;
    progress.show(record);
    EXPECT_EQ(allocation_count, before);
    out.read_all();
  }
}

TEST(Progress, AFullOutputIsAnError) {
  Channel out;
  open_pipe(out);
  ::close(out.write_end);
  out.write_end = ::open("/dev/full", O_WRONLY);
  Progress progress(out.write_end, ProgressStyle::plain, 1, 0);
  EXPECT_PRED2(mentions, error_text<IoError>([&] { progress.show(record_of(1, 1)); }),
               "No space left on device");
}

}  // namespace
}  // namespace strata::engine
