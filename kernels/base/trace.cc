#include "kernels/base/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/error.h"

namespace strata {
namespace {

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

// Nanoseconds as the format's microseconds, exactly.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

Tracer::Tracer(std::int64_t spans_max, std::int64_t recent_max)
    : spans_max_(static_cast<std::size_t>(spans_max)),
      recent_max_(static_cast<std::size_t>(recent_max)) {
  spans_.reserve(spans_max_);
  recent_.spans.reserve(recent_max_);
}

int Tracer::add_track(std::string name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back(std::move(name));
  return static_cast<int>(tracks_.size()) - 1;
}

int Tracer::find_or_add_track(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(tracks_.begin(), tracks_.end(), name);
  if (found != tracks_.end()) return static_cast<int>(found - tracks_.begin());
  tracks_.emplace_back(name);
  return static_cast<int>(tracks_.size()) - 1;
}

std::vector<std::string> Tracer::tracks() const {
  const std::lock_guard lock(mutex_);
  return tracks_;
}

void Tracer::add_source(SpanSource& source) {
  const std::lock_guard lock(sources_mutex_);
  sources_.push_back(&source);
}

void Tracer::remove_source(SpanSource& source) {
  const std::lock_guard lock(sources_mutex_);
  std::erase(sources_, &source);
}

void Tracer::ask_sources() const {
  const std::lock_guard lock(sources_mutex_);
  for (SpanSource* const source : sources_) source->record_ended();
}

void Tracer::record(int track, const char* name, std::int64_t begin_ns, std::int64_t end_ns,
                    std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto keep = [&](std::vector<Span>& spans, std::size_t spans_max, std::int64_t& dropped) {
    if (spans.size() < spans_max) {
      spans.push_back({name, begin_ns, end_ns, bytes, track});
    } else {
      ++dropped;
    }
  };
  keep(spans_, spans_max_, dropped_);
  keep(recent_.spans, recent_max_, recent_.dropped);
}

void Tracer::take_recent(RecentSpans& recent) {
  recent.spans.clear();
  recent.spans.reserve(recent_max_);
  recent.dropped = 0;
  ask_sources();
  const std::lock_guard lock(mutex_);
  std::swap(recent, recent_);
}

void Tracer::write(const std::string& path, int process) const {
  ask_sources();
  const std::lock_guard lock(mutex_);
  const auto fail = [&] { throw_error<IoError>("write trace {}: {}", path, std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             &std::fclose);
  if (file == nullptr) fail();
  try {
    fmt::print(file.get(), "{{\"otherData\":{{\"dropped_spans\":{}}},\"traceEvents\":[\n",
               dropped_);
    fmt::print(file.get(),
               R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
               process, process);
    for (std::size_t track = 0; track < tracks_.size(); ++track) {
      fmt::print(file.get(),
                 ",\n"
                 R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                 process, track, json_string(tracks_[track]));
    }
    for (const Span& span : spans_) {
      fmt::print(file.get(),
                 ",\n"
                 R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{})",
                 json_string(span.name), process, span.track, microseconds(span.begin_ns),
                 microseconds(span.end_ns - span.begin_ns));
      if (span.bytes >= 0) fmt::print(file.get(), R"(,"args":{{"bytes":{}}})", span.bytes);
      fmt::print(file.get(), "}}");
    }
    fmt::print(file.get(), "\n]}}\n");
  } catch (const std::system_error&) {  // what fmt throws when a write fails; errno is its reason
    fail();
  }
  if (std::fflush(file.get()) != 0) fail();
}

}  // namespace strata
