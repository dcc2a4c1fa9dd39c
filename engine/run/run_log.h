// RunLog: the JSON lines of a run, one per step once its update is written, and one before them for
// the first validation loss, to any number of files (--log FILE, log.jsonl in the folder of --run).
// Rank 0 has one. One thread writes, which allocates nothing; sync() may be called by another at
// the same time.
#pragma once

#include <string>
#include <vector>

#include "engine/run/step_json.h"
#include "engine/run/step_record.h"
#include "engine/run/text_file.h"

namespace strata::engine {

class RunLog {
 public:
  // Lines go to the end of each file. Throws IoError for a file that cannot be written.
  explicit RunLog(const std::vector<std::string>& paths);
  // Removes the files that it created and wrote nothing to.
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void write(const StepRecord& record);
  // Makes every line so far durable, for a commit that rests on it. Throws IoError.
  void sync();

 private:
  std::vector<TextFile> files_;
  LineBuffer line_;
  bool has_lines_ = false;
};

}  // namespace strata::engine
