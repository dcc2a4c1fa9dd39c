// Progress: what a run is doing, for the person or program at its standard output.
//
// On a terminal each step overwrites the line of the one before; lines with a validation loss and
// the last one stay. Elsewhere lines are plain and come at most once a second of training, besides
// the first, the last and those with a validation loss. With --json every step is a JSON line.
// Rank 0 has one. Used by one thread; show() allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/run/step_json.h"
#include "engine/run/step_record.h"

namespace strata::engine {

enum class ProgressStyle { terminal, plain, json };

// What suits a descriptor: json if asked for, otherwise by whether it is a terminal. Several ranks
// have launchers that put a terminal of their own before a file: plain.
ProgressStyle progress_style(int descriptor, bool json, int world_size);

class Progress {
 public:
  // `steps`: of the whole run; `nvme_bytes`: what the run holds on NVMe, on this rank;
  // `evaluated_part`: what validation losses are of, "" if of all of the data.
  Progress(int descriptor, ProgressStyle style, std::int64_t steps, std::int64_t nvme_bytes,
           std::string evaluated_part = "");
  // Ends an unfinished line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Throws IoError when the output cannot be written.
  void show(const StepRecord& record);

  // A line of text between the steps (a sample, a warning); {"note": …} in JSON.
  void note(std::string_view text);

  // The run's results: lines of text or, with --json, one JSON object, written as they are.
  void result(std::string_view text_or_json);

 private:
  bool is_due(const StepRecord& record);
  void format(const StepRecord& record);
  void cut_to_terminal();

  int descriptor_;
  ProgressStyle style_;
  std::int64_t steps_;
  std::int64_t nvme_bytes_;
  std::string evaluated_part_;
  LineBuffer line_;
  double mean_step_s_ = 0;  // of the recent steps
  double unshown_s_ = 0;    // trained since the last plain line
  bool line_is_open_ =
      false;  // the terminal's cursor stands behind a line that will be overwritten
};

}  // namespace strata::engine
