#include "engine/run/run_profile.h"

#include <algorithm>
#include <filesystem>

#include "io/plain_file.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kLinesMax = 5000;
constexpr std::int64_t kTimelineEveryNs = 60'000'000'000;

std::string path_in(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

bool is_profiled(const RunSetup& setup) {
  return setup.shape.purpose == Purpose::training && setup.topology.rank == 0 &&
         (setup.options.profile || !setup.options.run.empty());
}

RunProfile::RunProfile(const RunProfileParts& parts)
    : parts_(parts),
      line_every_(std::max<std::int64_t>(1, ceil_div(parts.steps, kLinesMax))),
      tracks_(parts.tracer.tracks()),
      profiler_(tracks_, parts.device_kind) {
  if (!parts_.folder.empty()) file_.emplace(path_in(parts_.folder, kProfileFile));
}

void RunProfile::step_begins() {
  parts_.tracer.take_recent(recent_);  // of no step
  begin_ns_ = Tracer::now_ns();
}

void RunProfile::step_ends() {
  end_ns_ = Tracer::now_ns();
  parts_.tracer.take_recent(recent_);
}

void RunProfile::record(std::int64_t step) {
  const StepProfile& profile = profiler_.profile(step, recent_, begin_ns_, end_ns_);
  kept_.add(profile, recent_.spans);
  if (!file_) return;
  if (step % line_every_ == 0) {
    line_.clear();
    append_profile_line(line_, profile,
                        {parts_.device.held_bytes(), parts_.host.held_bytes(),
                         parts_.nvme_held_bytes, resident_bytes()});
    file_->write({line_.data(), line_.size()});
  }
  // The first step of a process is none that is kept.
  const bool is_due = !written_ns_ || end_ns_ - *written_ns_ >= kTimelineEveryNs;
  if (kept_.added() > 1 && is_due) write_timeline();
}

void RunProfile::write_timeline() {
  io::replace_file(path_in(parts_.folder, kTimelineFile), timeline_json(kept_, tracks_));
  written_ns_ = end_ns_;
}

void RunProfile::finish() {
  if (file_ && kept_.added() > 0) write_timeline();
}

}  // namespace strata::engine
