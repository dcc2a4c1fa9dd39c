#include "engine/profile/step_profile.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::engine {
namespace {

constexpr int kDepthMax = 8;  // spans within spans
constexpr int kHopsMax = 6;   // rows that wait for each other
constexpr std::size_t kKindsMax = 256;

}  // namespace

// The name of a span, as the address of a literal: the same text may have several.
struct StepProfiler::Name {
  const char* pointer;
  SpanMeaning meaning;
  int follows;  // track, where it waits for one; below 0: there is none of that name
  int kind;     // index into kinds_
};

struct StepProfiler::Track {
  std::string name;
  Drive* drive = nullptr;  // null: a thread's
  int feeder = -1;
  int kind = 0;  // of the cores' work, where this row does it
  Idle idle_for_others = Idle::other;
  int depth = 0;             // of its spans; those beyond kDepthMax are not seen
  int open[kDepthMax] = {};  // indices into names_, the innermost last
  int open_span[kDepthMax] = {};

  int innermost() const { return depth == 0 ? -1 : open[std::min(depth, kDepthMax) - 1]; }
};

struct StepProfiler::Drive {
  int read_track = -1;
  int write_track = -1;
  std::int64_t reads = 0;  // in flight
  std::int64_t writes = 0;
  int kinds[3] = {};  // read, write, both
};

struct StepProfiler::Event {
  std::int64_t at_ns;
  std::int64_t end_ns;  // of the span
  int span;
  int name;
  int track;
  bool begins;

  // What ends does so before anything begins, and of what begins the longest is the outermost.
  bool operator<(const Event& other) const {
    if (at_ns != other.at_ns) return at_ns < other.at_ns;
    if (begins != other.begins) return other.begins;
    return begins && end_ns > other.end_ns;
  }
};

struct StepProfiler::Row {
  State state = 0;
  std::int64_t since_ns = 0;
  std::vector<std::int64_t> ns;  // by state

  void go_to(State next, std::int64_t now_ns) {
    if (next == state) return;
    ns[static_cast<std::size_t>(state)] += now_ns - since_ns;
    state = next;
    since_ns = now_ns;
  }
};

std::int64_t RowTimes::work_ns() const {
  return std::accumulate(work.begin(), work.end(), std::int64_t{0},
                         [](std::int64_t sum, const WorkTime& time) { return sum + time.ns; });
}

const RowTimes* StepProfile::row(std::string_view name) const {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const RowTimes& times) { return times.row == name; });
  return found == rows.end() ? nullptr : &*found;
}

StepProfiler::StepProfiler(const std::vector<std::string>& tracks, DeviceKind device) {
  profile_.device = device;
  kinds_.reserve(kKindsMax);  // their text does not move
  for (const std::string& name : tracks) {
    Track& track = tracks_.emplace_back();
    track.name = name;
    track.idle_for_others = waiting_for_work_of(name);
  }
  const auto drives =
      static_cast<std::size_t>(std::count(tracks.begin(), tracks.end(), kDriveReads));
  drives_.resize(drives);
  std::size_t reads = 0;
  std::size_t writes = 0;
  profile_.rows.push_back({"cores", {}, {}});
  for (std::size_t d = 0; d < drives; ++d) {
    profile_.rows.push_back({drives == 1 ? "drive" : fmt::format("drive {}", d + 1), {}, {}});
    drives_[d].kinds[0] = kind_of("read");
    drives_[d].kinds[1] = kind_of("write");
    drives_[d].kinds[2] = kind_of("read and write");
  }
  for (int t = 0; t < static_cast<int>(tracks_.size()); ++t) {
    Track& track = tracks_[static_cast<std::size_t>(t)];
    if (track.name == kDriveReads) {
      track.drive = &drives_[reads];
      drives_[reads++].read_track = t;
    } else if (track.name == kDriveWrites && writes < drives) {
      track.drive = &drives_[writes];
      drives_[writes++].write_track = t;
    } else {
      track.feeder = track_of(feeder_of(track.name));
      track.kind = kind_of(track.name);
      if (uses_cores(track.name, device)) core_tracks_.push_back(t);
      profile_.rows.push_back({track.name, {}, {}});
    }
  }
  for (const std::string_view feeder : kDriveFeeders) {
    if (const int track = track_of(feeder); track >= 0) drive_feeders_.push_back(track);
  }
  compute_track_ = track_of("compute");
  rows_.resize(profile_.rows.size());
}

StepProfiler::~StepProfiler() = default;

int StepProfiler::track_of(std::string_view name) const {
  const auto found = std::find_if(tracks_.begin(), tracks_.end(),
                                  [&](const Track& track) { return track.name == name; });
  return name.empty() || found == tracks_.end() ? -1 : static_cast<int>(found - tracks_.begin());
}

int StepProfiler::kind_of(std::string_view kind) {
  const auto found = std::find(kinds_.begin(), kinds_.end(), kind);
  if (found != kinds_.end()) return static_cast<int>(found - kinds_.begin());
  STRATA_CHECK(kinds_.size() < kKindsMax, "more than {} kinds of work", kKindsMax);
  kinds_.emplace_back(kind);
  return static_cast<int>(kinds_.size()) - 1;
}

int StepProfiler::name_of_span(const char* pointer) {
  for (std::size_t n = 0; n < names_.size(); ++n) {
    if (names_[n].pointer == pointer) return static_cast<int>(n);
  }
  const SpanMeaning meaning = meaning_of(pointer);
  const int kind = meaning.kind == SpanMeaning::Kind::work ? kind_of(pointer) : 0;
  names_.push_back({pointer, meaning, track_of(meaning.row), kind});
  return static_cast<int>(names_.size()) - 1;
}

void StepProfiler::collect_events(const Tracer::RecentSpans& recent, std::int64_t begin_ns,
                                  std::int64_t end_ns) {
  events_.clear();
  int index = 0;
  for (const Tracer::Span& span : recent.spans) {
    const std::int64_t begin = std::max(span.begin_ns, begin_ns);
    const std::int64_t end = std::min(span.end_ns, end_ns);
    if (begin >= end || span.track >= static_cast<int>(tracks_.size())) continue;
    const int name = name_of_span(span.name);
    events_.push_back({begin, end, index, name, span.track, true});
    events_.push_back({end, end, index, name, span.track, false});
    ++index;
  }
  std::sort(events_.begin(), events_.end());
}

void StepProfiler::apply(const Event& event) {
  Track& track = tracks_[static_cast<std::size_t>(event.track)];
  if (track.drive != nullptr) {
    Drive& drive = *track.drive;
    const int change = event.begins ? 1 : -1;
    (event.track == drive.read_track ? drive.reads : drive.writes) += change;
    in_flight_ += change;
    return;
  }
  if (event.begins) {
    if (track.depth < kDepthMax) {
      track.open[track.depth] = event.name;
      track.open_span[track.depth] = event.span;
    }
    ++track.depth;
    return;
  }
  // The innermost, unless spans overlap that do not lie within each other.
  const int seen = std::min(track.depth, kDepthMax);
  int* const last = track.open_span + seen;
  int* const found = std::find(track.open_span, last, event.span);
  if (found != last) {
    const auto at = found - track.open_span;
    std::copy(found + 1, last, found);
    std::copy(track.open + at + 1, track.open + seen, track.open + at);
  }
  --track.depth;
}

Idle StepProfiler::reason_for_others(int track, int hops) const {
  const Track& other = tracks_[static_cast<std::size_t>(track)];
  const int innermost = other.innermost();
  const bool works = innermost >= 0 && names_[static_cast<std::size_t>(innermost)].meaning.kind ==
                                           SpanMeaning::Kind::work;
  return works ? other.idle_for_others : reason(track, hops);
}

Idle StepProfiler::reason(int track, int hops) const {
  if (hops == 0) return Idle::other;
  const Track& its = tracks_[static_cast<std::size_t>(track)];
  const int innermost = its.innermost();
  if (innermost < 0) {
    return its.feeder < 0 ? Idle::nothing : reason_for_others(its.feeder, hops - 1);
  }
  const Name& name = names_[static_cast<std::size_t>(innermost)];
  if (name.meaning.kind == SpanMeaning::Kind::as_row) {
    return name.follows < 0 ? Idle::other : reason_for_others(name.follows, hops - 1);
  }
  return name.meaning.idle == Idle::read && in_flight_ == 0 ? Idle::verify : name.meaning.idle;
}

StepProfiler::State StepProfiler::state_of(int track) const {
  const int innermost = tracks_[static_cast<std::size_t>(track)].innermost();
  if (innermost >= 0) {
    const Name& name = names_[static_cast<std::size_t>(innermost)];
    if (name.meaning.kind == SpanMeaning::Kind::work) return kIdles + name.kind;
  }
  return static_cast<State>(reason(track, kHopsMax));
}

StepProfiler::State StepProfiler::state_of(const Drive& drive) const {
  if (drive.reads > 0 || drive.writes > 0) {
    return kIdles + drive.kinds[drive.reads == 0 ? 1 : drive.writes == 0 ? 0 : 2];
  }
  for (const int feeder : drive_feeders_) {
    if (tracks_[static_cast<std::size_t>(feeder)].depth == 0) continue;
    return static_cast<State>(reason_for_others(feeder, kHopsMax));
  }
  return static_cast<State>(Idle::nothing);
}

StepProfiler::State StepProfiler::state_of_cores() const {
  for (const int track : core_tracks_) {
    if (state_of(track) >= kIdles) return kIdles + tracks_[static_cast<std::size_t>(track)].kind;
  }
  return static_cast<State>(compute_track_ < 0 ? Idle::nothing
                                               : reason_for_others(compute_track_, kHopsMax));
}

void StepProfiler::update_rows(std::int64_t now_ns) {
  std::size_t row = 0;
  rows_[row++].go_to(state_of_cores(), now_ns);
  for (const Drive& drive : drives_) rows_[row++].go_to(state_of(drive), now_ns);
  for (int t = 0; t < static_cast<int>(tracks_.size()); ++t) {
    if (tracks_[static_cast<std::size_t>(t)].drive == nullptr) {
      rows_[row++].go_to(state_of(t), now_ns);
    }
  }
}

void StepProfiler::fill_times(RowTimes& times, const Row& row) const {
  std::copy_n(row.ns.begin(), kIdles, times.idle_ns.begin());
  times.work.clear();
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const std::int64_t ns = row.ns[kIdles + k];
    if (ns > 0) times.work.push_back({kinds_[k], ns});
  }
  std::sort(times.work.begin(), times.work.end(),
            [](const WorkTime& a, const WorkTime& b) { return a.ns > b.ns; });
}

const StepProfile& StepProfiler::profile(std::int64_t step, const Tracer::RecentSpans& recent,
                                         std::int64_t begin_ns, std::int64_t end_ns) {
  profile_.step = step;
  profile_.begin_ns = begin_ns;
  profile_.wall_ns = end_ns - begin_ns;
  profile_.dropped_spans = recent.dropped;
  collect_events(recent, begin_ns, end_ns);
  for (Row& row : rows_) {
    row.ns.assign(kIdles + kKindsMax, 0);
    row.state = static_cast<State>(Idle::nothing);
    row.since_ns = begin_ns;
  }
  update_rows(begin_ns);
  for (std::size_t e = 0; e < events_.size(); ++e) {
    apply(events_[e]);
    const bool is_last_now = e + 1 == events_.size() || events_[e + 1].at_ns != events_[e].at_ns;
    if (is_last_now) update_rows(events_[e].at_ns);
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    row.ns[static_cast<std::size_t>(row.state)] += end_ns - row.since_ns;
    RowTimes& times = profile_.rows[r];
    fill_times(times, row);
    if (r == 0 || r > drives_.size() || !times.work.empty()) continue;
    times.idle_ns = {};  // of a drive without traffic
    times.idle_ns[static_cast<std::size_t>(Idle::nothing)] = profile_.wall_ns;
  }
  return profile_;
}

}  // namespace strata::engine
