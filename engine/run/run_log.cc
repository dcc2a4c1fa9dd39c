#include "engine/run/run_log.h"

#include <unistd.h>

#include <string_view>

namespace strata::engine {

RunLog::RunLog(const std::vector<std::string>& paths) {
  files_.reserve(paths.size());
  for (const std::string& path : paths) files_.emplace_back(path);
}

RunLog::~RunLog() {
  if (has_lines_) return;
  for (const TextFile& file : files_) {
    if (file.created()) ::unlink(file.path().c_str());
  }
}

void RunLog::write(const StepRecord& record) {
  line_.clear();
  append_json_line(line_, record);
  has_lines_ = true;
  for (TextFile& file : files_) file.write({line_.data(), line_.size()});
}

void RunLog::sync() {
  for (TextFile& file : files_) file.sync();
}

}  // namespace strata::engine
