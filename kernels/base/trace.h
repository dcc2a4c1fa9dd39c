// Tracer: what each stream and thread did and when, for --trace and for the busy times of a run.
//
// Spans go into a buffer of fixed size taken at construction (recording allocates nothing); once it
// is full further spans are counted as dropped and the file says so. Thread-safe. A null Tracer*
// means "off" everywhere: use TraceSpan, which tests for it.
// Format written: Chrome trace events ("X" events, microseconds), readable by Perfetto.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace strata {

class Tracer {
 public:
  explicit Tracer(std::int64_t spans_max);

  // A row of the trace. Call at set-up; the returned id is for record().
  int add_track(std::string name);

  // `name` must outlive the Tracer (a literal). `bytes` < 0: not shown.
  void record(int track, const char* name, std::int64_t begin_ns, std::int64_t end_ns,
              std::int64_t bytes = -1) noexcept;

  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // Writes the whole trace; throws IoError. `process` is shown as the process id (the rank).
  void write(const std::string& path, int process) const;

 private:
  struct Span {
    const char* name;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::int64_t bytes;
    int track;
  };
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::size_t recorded_ = 0;  // spans recorded so far, the dropped ones too
  std::vector<std::string> tracks_;
};

// Records [construction, destruction) on a track, if there is a tracer.
class TraceSpan {
 public:
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
