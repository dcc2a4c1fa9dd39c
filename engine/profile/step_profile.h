// StepProfile: where the time of one step went: for each row (a stream, a thread, a drive, the
// cores together) how long it worked, at what, and how long it did nothing, and why. Of every row,
// work and idle time are exactly the step's wall time.
//
// StepProfiler makes it of the trace spans of the step. At each moment a thread does what its
// innermost span says: work, or a wait. A wait for another row has the reason that that row has at
// that moment: compute that waits for weights whose fetch waits for the drive waits for a read. A
// row without a span has the reason of the row that gives it work. A drive works while a request is
// in flight; in between it waits for what the first of the threads that feed it, in their order,
// that is not without a task is doing; one that works in none of the step has nothing to do.
// "cores" works while any row does that takes them; beside a GPU streams do not.
//
// What lies outside of the step is cut off. A span is known when it has ended: of one that reaches
// into the next step, the part before counts as a time without a span.
// Thread contract: one thread. Allocates nothing once every row and name was there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/profile/span_meaning.h"
#include "kernels/base/trace.h"

namespace strata::engine {

struct WorkTime {
  std::string_view
      kind;  // name of the spans, and of "cores" of the row; lasts as the profiler does
  std::int64_t ns;
};

struct RowTimes {
  std::string row;
  std::vector<WorkTime> work;  // most first
  std::array<std::int64_t, kIdles> idle_ns{};

  std::int64_t work_ns() const;
  std::int64_t idle(Idle reason) const { return idle_ns[static_cast<std::size_t>(reason)]; }
};

struct StepProfile {
  std::int64_t step = 0;
  std::int64_t begin_ns = 0;
  std::int64_t wall_ns = 0;
  std::int64_t dropped_spans = 0;  // did not fit: the profile lacks them
  DeviceKind device = DeviceKind::cpu;
  std::vector<RowTimes> rows;  // "cores" first, then drives, then streams and threads

  const RowTimes* row(std::string_view name) const;  // null: there is none
};

class StepProfiler {
 public:
  // The rows of the tracer, by id: all that there will be.
  StepProfiler(const std::vector<std::string>& tracks, DeviceKind device);
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  // The step [begin, end). The reference is valid until the next call.
  const StepProfile& profile(std::int64_t step, const Tracer::RecentSpans& recent,
                             std::int64_t begin_ns, std::int64_t end_ns);

 private:
  // What a row does at a moment: below kIdles a reason to be idle, from there on a kind of work.
  using State = int;
  struct Name;
  struct Track;
  struct Drive;
  struct Event;
  struct Row;

  int track_of(std::string_view name) const;
  int name_of_span(const char* pointer);
  int kind_of(std::string_view kind);
  void collect_events(const Tracer::RecentSpans& recent, std::int64_t begin_ns,
                      std::int64_t end_ns);
  void apply(const Event& event);
  void update_rows(std::int64_t now_ns);
  State state_of(int track) const;
  State state_of(const Drive& drive) const;
  State state_of_cores() const;
  Idle reason(int track, int hops) const;
  Idle reason_for_others(int track, int hops) const;
  void fill_times(RowTimes& times, const Row& row) const;

  std::vector<Track> tracks_;
  std::vector<Drive> drives_;
  std::vector<int> drive_feeders_;  // tracks
  std::vector<int> core_tracks_;
  int compute_track_ = -1;
  std::vector<Name> names_;  // of spans, as they were met
  std::vector<std::string> kinds_;
  std::vector<Event> events_;
  std::vector<Row> rows_;       // as in profile_.rows
  std::int64_t in_flight_ = 0;  // requests of all drives
  StepProfile profile_;
};

}  // namespace strata::engine
