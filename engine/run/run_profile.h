// RunProfile: where the time of a run's steps goes, recorded as they go by: a line of profile.jsonl
// for a step, and timeline.json with the spans of the slowest and the median one, in the folder of
// --run; and for --profile the table at the end. Rank 0 has one, for its own streams and drives.
//
//   between steps ──step_begins()──▶ in a step ──step_ends()──▶ ended ──record()──▶ between steps
//
// Bounded: of a run with more than 5,000 steps every n-th has a line; timeline.json is written once
// a minute and at the end. Lines end where a run that goes on resumes, as the log does; the
// timeline is of the process that wrote it. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"
#include "engine/profile/kept_steps.h"
#include "engine/profile/profile_json.h"
#include "engine/profile/step_profile.h"
#include "engine/run/text_file.h"
#include "kernels/base/budget.h"
#include "kernels/base/trace.h"
#include "kernels/device/device.h"

namespace strata::engine {

// Whether this rank records where the time of its steps goes: rank 0 of a run with a folder or
// --profile.
bool is_profiled(const RunSetup& setup);

struct RunProfileParts {
  Tracer& tracer;  // with every row that there will be
  const Budget& device;
  const Budget& host;
  std::int64_t nvme_held_bytes;
  std::int64_t steps;  // of the whole run
  std::string folder;  // of the run; empty: nothing is written
  DeviceKind device_kind = DeviceKind::cpu;
};

class RunProfile {
 public:
  // Throws IoError when profile.jsonl cannot be written.
  explicit RunProfile(const RunProfileParts& parts);

  void step_begins();
  void step_ends();  // right after it, so that its spans are not those of what follows
  // Works out the profile of the step that ended, and writes it. Throws IoError.
  void record(std::int64_t step);
  // At the end of the run, or of this process's part in it. Throws IoError.
  void finish();

  const KeptSteps& steps() const { return kept_; }

 private:
  void write_timeline();

  RunProfileParts parts_;
  std::int64_t line_every_;
  std::vector<std::string> tracks_;
  StepProfiler profiler_;
  KeptSteps kept_;
  Tracer::RecentSpans recent_;
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  std::optional<TextFile> file_;
  ProfileLine line_;
  std::optional<std::int64_t> written_ns_;  // when timeline.json was
};

}  // namespace strata::engine
