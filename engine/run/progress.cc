#include "engine/run/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/options/duration_text.h"
#include "engine/options/json_text.h"
#include "engine/run/terminal.h"
#include "engine/run/text_file.h"
#include "kernels/base/bytes.h"

namespace strata::engine {
namespace {

constexpr std::string_view kOutputName = "the progress output";
constexpr double kPlainInterval_s = 1.0;
constexpr double kMeanWeight = 0.1;  // of the newest step in the running mean

template <typename... Args>
void append(LineBuffer& line, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
}

// The sign of a NaN says nothing.
double printable(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace

ProgressStyle progress_style(int descriptor, bool json, int world_size) {
  if (json) return ProgressStyle::json;
  return world_size == 1 && ::isatty(descriptor) ? ProgressStyle::terminal : ProgressStyle::plain;
}

Progress::Progress(int descriptor, ProgressStyle style, std::int64_t steps, std::int64_t nvme_bytes,
                   std::string evaluated_part)
    : descriptor_(descriptor),
      style_(style),
      steps_(steps),
      nvme_bytes_(nvme_bytes),
      evaluated_part_(std::move(evaluated_part)) {}

Progress::~Progress() {
  if (line_is_open_ && ::write(descriptor_, "\n", 1) != 1) {
    std::fputs("strata: cannot end the progress line\n", stderr);
  }
}

void Progress::show(const StepRecord& record) {
  if (record.step > 0) {
    mean_step_s_ += (mean_step_s_ == 0 ? 1 : kMeanWeight) * (record.step_s - mean_step_s_);
  }
  if (!is_due(record)) return;
  line_.clear();
  if (style_ == ProgressStyle::json) {
    append_json_line(line_, record);
    io::write_fully(descriptor_, {line_.data(), line_.size()}, kOutputName);
    return;
  }
  format(record);
  const bool stays = style_ == ProgressStyle::plain || record.val_loss || record.step == steps_;
  if (style_ == ProgressStyle::terminal) cut_to_terminal();
  if (stays) append(line_, "\n");
  io::write_fully(descriptor_, {line_.data(), line_.size()}, kOutputName);
  line_is_open_ = !stays;
}

void Progress::note(std::string_view text) {
  if (style_ == ProgressStyle::json) {
    const std::string line = json_text({{"note", text}}, -1);
    io::write_fully(descriptor_, line + "\n", kOutputName);
    return;
  }
  result(text);
}

void Progress::result(std::string_view text_or_json) {
  const std::string_view start = line_is_open_ ? kStartOver : "";
  io::write_fully(descriptor_, fmt::format("{}{}\n", start, text_or_json), kOutputName);
  line_is_open_ = false;
}

bool Progress::is_due(const StepRecord& record) {
  if (style_ != ProgressStyle::plain) return true;
  unshown_s_ += record.step_s;
  const bool due = unshown_s_ >= kPlainInterval_s || record.step <= 1 || record.step == steps_ ||
                   record.val_loss || record.skipped;
  if (due) unshown_s_ = 0;
  return due;
}

void Progress::format(const StepRecord& record) {
  if (style_ == ProgressStyle::terminal) append(line_, "{}", kStartOver);
  append(line_, "step {}/{}", record.step, steps_);
  if (record.step > 0 && record.targets > 0) {
    append(line_, "  loss {:.4f}", printable(record.loss));
  } else if (record.step > 0) {
    append(line_, "  no token is trained");
  }
  if (record.val_loss) {
    append(line_, "  val {:.4f}", printable(*record.val_loss));
    if (!evaluated_part_.empty()) append(line_, " ({})", evaluated_part_);
  }
  if (record.step == 0) return;
  append(line_, "  lr {:.2e}", record.lr);
  if (record.grad_norm) append(line_, "  norm {:.3g}", printable(*record.grad_norm));
  if (record.skipped) append(line_, "  skipped");
  append(line_, "  {:.0f} tok/s  {}", record.tokens_per_s, duration_text(record.step_s));
  if (record.padding > 0) append(line_, "  {:.0f}% padding", 100 * record.padding);
  if (record.bound_s > 0) {
    append(line_, "  {:.2f} x bound", record.step_s / record.bound_s);
  }
  const std::int64_t steps_left = std::max<std::int64_t>(0, steps_ - record.step);
  append(line_, "  left {}", duration_text(mean_step_s_ * static_cast<double>(steps_left)));
  append(line_, "  device {}  host {}  nvme {}", format_bytes(record.device_peak_bytes),
         format_bytes(record.host_peak_bytes), format_bytes(nvme_bytes_));
}

void Progress::cut_to_terminal() {
  const std::size_t text = line_.size() - kStartOver.size();
  line_.resize(kStartOver.size() + std::min(text, terminal_columns(descriptor_)));
}

}  // namespace strata::engine
