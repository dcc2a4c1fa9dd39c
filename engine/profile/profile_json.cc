#include "engine/profile/profile_json.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine/profile/profile_table.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kSpansPerStep = 20'000;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

nlohmann::json json_of(const StepProfile& profile) {
  nlohmann::json rows = nlohmann::json::array();
  for (const RowTimes& times : profile.rows) {
    nlohmann::json row = {
        {"row", times.row}, {"work", nlohmann::json::object()}, {"idle", nlohmann::json::object()}};
    for (const WorkTime& work : times.work) row["work"][std::string(work.kind)] = seconds(work.ns);
    for (int i = 0; i < kIdles; ++i) {
      const auto reason = static_cast<Idle>(i);
      if (times.idle(reason) > 0) row["idle"][name_of(reason)] = seconds(times.idle(reason));
    }
    rows.push_back(std::move(row));
  }
  return {{"step", profile.step},
          {"wall_s", seconds(profile.wall_ns)},
          {"dropped_spans", profile.dropped_spans},
          {"rows", std::move(rows)}};
}

bool is_drive(std::string_view track) { return track == kDriveReads || track == kDriveWrites; }

// Sorted by row, then time; drives' requests as one span while any is in flight.
std::vector<Tracer::Span> merged(const KeptStep& step, std::size_t tracks) {
  const std::int64_t begin_ns = step.profile.begin_ns;
  const std::int64_t end_ns = begin_ns + step.profile.wall_ns;
  std::vector<Tracer::Span> spans;
  for (Tracer::Span span : step.spans) {
    span.begin_ns = std::max(span.begin_ns, begin_ns);
    span.end_ns = std::min(span.end_ns, end_ns);
    if (span.end_ns > span.begin_ns && span.track < static_cast<int>(tracks)) spans.push_back(span);
  }
  std::sort(spans.begin(), spans.end(), [](const Tracer::Span& a, const Tracer::Span& b) {
    return std::pair(a.track, a.begin_ns) < std::pair(b.track, b.begin_ns);
  });
  const std::int64_t near_ns = step.profile.wall_ns / kSpansPerStep;
  std::vector<Tracer::Span> result;
  for (const Tracer::Span& span : spans) {
    if (!result.empty() && result.back().track == span.track && result.back().name == span.name &&
        span.begin_ns <= result.back().end_ns + near_ns) {
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
      if (span.bytes > 0)
        result.back().bytes = std::max<std::int64_t>(result.back().bytes, 0) + span.bytes;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// Leaves the longest ones, in their order. Returns how many it left out.
std::size_t shorten(std::vector<Tracer::Span>& spans) {
  if (spans.size() <= kSpansPerStep) return 0;
  std::vector<std::int64_t> lengths;
  for (const Tracer::Span& span : spans) lengths.push_back(span.end_ns - span.begin_ns);
  const auto limit = lengths.begin() + kSpansPerStep;
  std::nth_element(lengths.begin(), limit, lengths.end(), std::greater<>());
  return std::erase_if(
      spans, [&](const Tracer::Span& span) { return span.end_ns - span.begin_ns <= *limit; });
}

std::string step_json(const KeptStep& step, const std::vector<std::string>& tracks) {
  std::vector<Tracer::Span> spans = merged(step, tracks.size());
  const std::size_t left_out = shorten(spans);
  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::size_t> row_of(tracks.size());
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    const bool is_seen = std::any_of(spans.begin(), spans.end(), [&](const Tracer::Span& span) {
      return span.track == static_cast<int>(t);
    });
    row_of[t] = rows.size();
    if (is_seen) rows.push_back(tracks[t]);
  }
  nlohmann::json names = nlohmann::json::array();
  std::map<std::string_view, std::size_t> name_ids;
  std::string text;
  for (const Tracer::Span& span : spans) {
    const auto [name, is_new] = name_ids.emplace(span.name, names.size());
    if (is_new) names.push_back(span.name);
    const auto row = row_of[static_cast<std::size_t>(span.track)];
    fmt::format_to(std::back_inserter(text), "{}[{},{},{},{}{}]", text.empty() ? "" : ",", row,
                   name->second, (span.begin_ns - step.profile.begin_ns) / 1000,
                   (span.end_ns - span.begin_ns) / 1000,
                   is_drive(tracks[static_cast<std::size_t>(span.track)])
                       ? fmt::format(",{}", std::max<std::int64_t>(span.bytes, 0))
                       : "");
  }
  return fmt::format(R"({{"profile":{},"rows":{},"names":{},"left_out_spans":{},"spans_us":[{}]}})",
                     json_of(step.profile).dump(), rows.dump(), names.dump(), left_out, text);
}

}  // namespace

void append_profile_line(ProfileLine& line, const StepProfile& profile, const HeldMemory& held) {
  const auto append = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
  };
  append(R"({{"step":{},"wall_s":{:.6f},"dropped_spans":{},"held_bytes":{{"device":{},"host":{},)"
         R"("nvme":{},"resident":{}}},"rows":{{)",
         profile.step, seconds(profile.wall_ns), profile.dropped_spans, held.device, held.host,
         held.nvme, held.resident);
  bool is_first_row = true;
  for (const RowTimes& times : profile.rows) {
    if (times.idle(Idle::nothing) == profile.wall_ns) continue;
    append(R"({}"{}":{{"work":{:.6f})", is_first_row ? "" : ",", times.row,
           seconds(times.work_ns()));
    for (int i = 0; i < kIdles; ++i) {
      const auto reason = static_cast<Idle>(i);
      if (times.idle(reason) == 0) continue;
      append(R"(,"{}":{:.6f})", name_of(reason), seconds(times.idle(reason)));
    }
    append("}}");
    is_first_row = false;
  }
  append("}}}}\n");
}

std::string profile_json(const StepProfile& profile) { return json_of(profile).dump(); }

std::string timeline_json(const KeptSteps& steps, const std::vector<std::string>& tracks) {
  return fmt::format("{{\"limit\":\"{}\",\n\"median\":{},\n\"slowest\":{}}}\n",
                     limit_text(steps.median().profile), step_json(steps.median(), tracks),
                     step_json(steps.slowest(), tracks));
}

}  // namespace strata::engine
