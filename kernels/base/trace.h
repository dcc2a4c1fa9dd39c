// Tracer: what each stream and thread did and when, for --trace and for the profile of a run.
//
// Spans go into two buffers of fixed size taken at construction (recording allocates nothing): all
// of the run for write(), and those since the last take_recent(). Once one is full further spans
// are counted as dropped, which the file and whoever takes them say. Memory is touched as it fills.
// What is done elsewhere, on a GPU, is known only later: a SpanSource is asked for it before spans
// are taken or written. Thread-safe. A null Tracer* means "off" everywhere: use TraceSpan, which
// tests for it. Format written: Chrome trace events ("X" events, microseconds), readable by
// Perfetto.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

class SpanSource {
 public:
  virtual ~SpanSource() = default;
  // Records the spans that have ended; does not wait for others.
  virtual void record_ended() = 0;
};

class Tracer {
 public:
  struct Span {
    const char* name;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::int64_t bytes;
    int track;
  };
  struct RecentSpans {
    std::vector<Span> spans;   // in the order in which they ended
    std::int64_t dropped = 0;  // that ended later and did not fit
  };

  // `spans_max`: for write(); `recent_max`: for take_recent(); 0: none.
  explicit Tracer(std::int64_t spans_max, std::int64_t recent_max = 0);

  // A row of the trace. Call at set-up; the returned id is for record().
  int add_track(std::string name);
  // The row of this name, a new one if there is none: for parts of one thread.
  int find_or_add_track(std::string_view name);
  std::vector<std::string> tracks() const;  // by id
  // It must not go before remove_source() has returned.
  void add_source(SpanSource& source);
  void remove_source(SpanSource& source);

  // `name` must outlive the Tracer (a literal). `bytes` < 0: not shown.
  void record(int track, const char* name, std::int64_t begin_ns, std::int64_t end_ns,
              std::int64_t bytes = -1) noexcept;

  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // Gives what was recorded since the last call, and records into the memory of `recent` next,
  // which only the first call enlarges.
  void take_recent(RecentSpans& recent);

  // Writes the whole trace; throws IoError. `process` is shown as the process id (the rank).
  void write(const std::string& path, int process) const;

 private:
  void ask_sources() const;

  mutable std::mutex sources_mutex_;
  std::vector<SpanSource*> sources_;
  mutable std::mutex mutex_;  // of what follows
  std::size_t spans_max_;
  std::size_t recent_max_;
  std::vector<Span> spans_;
  std::int64_t dropped_ = 0;  // from spans_
  RecentSpans recent_;
  std::vector<std::string> tracks_;
};

// A row of the trace and who writes to it; nothing without a tracer.
struct TraceTrack {
  TraceTrack() = default;
  TraceTrack(Tracer* its_tracer, std::string_view name) : tracer(its_tracer) {
    if (tracer != nullptr) id = tracer->find_or_add_track(name);
  }
  Tracer* tracer = nullptr;
  int id = 0;
};

// Records [construction, destruction) on a track, if there is a tracer.
class TraceSpan {
 public:
  TraceSpan(const TraceTrack& track, const char* name, std::int64_t bytes = -1)
      : TraceSpan(track.tracer, track.id, name, bytes) {}
  TraceSpan(Tracer* tracer, int track, const char* name, std::int64_t bytes = -1)
      : tracer_(tracer), name_(name), bytes_(bytes), track_(track) {
    if (tracer_ != nullptr) begin_ns_ = Tracer::now_ns();
  }
  ~TraceSpan() {
    if (tracer_ != nullptr) tracer_->record(track_, name_, begin_ns_, Tracer::now_ns(), bytes_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Tracer* tracer_;
  const char* name_;
  std::int64_t bytes_;
  std::int64_t begin_ns_ = 0;
  int track_;
};

}  // namespace strata
