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

Tracer::Tracer(std::int64_t spans_max) : spans_(static_cast<std::size_t>(spans_max)) {}

int Tracer::add_track(std::string name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back(std::move(name));
  return static_cast<int>(tracks_.size()) - 1;
}

void Tracer::record(int track, const char* name, std::int64_t begin_ns, std::int64_t end_ns,
                    std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (recorded_ < spans_.size()) spans_[recorded_] = {name, begin_ns, end_ns, bytes, track};
  ++recorded_;
}

void Tracer::write(const std::string& path, int process) const {
  const std::lock_guard lock(mutex_);
  const auto fail = [&] { throw_error<IoError>("write trace {}: {}", path, std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             &std::fclose);
  if (file == nullptr) fail();
  const std::size_t kept = std::min(recorded_, spans_.size());
  try {
    fmt::print(file.get(), "{{\"otherData\":{{\"dropped_spans\":{}}},\"traceEvents\":[\n",
               recorded_ - kept);
    fmt::print(file.get(),
               R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
               process, process);
    for (std::size_t track = 0; track < tracks_.size(); ++track) {
      fmt::print(file.get(),
                 ",\n"
                 R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                 process, track, json_string(tracks_[track]));
    }
    for (std::size_t i = 0; i < kept; ++i) {
      const Span& span = spans_[i];
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
