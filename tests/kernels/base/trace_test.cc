#include "kernels/base/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata {
namespace {

nlohmann::json written(const Tracer& tracer, int process) {
  const std::string path = testing::TempDir() + "strata_trace_test.json";
  tracer.write(path, process);
  std::ifstream file(path);
  nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  return trace;
}

std::vector<nlohmann::json> events_of_kind(const nlohmann::json& trace, const std::string& kind) {
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == kind) events.push_back(event);
  }
  return events;
}

TEST(Tracer, WritesSpansInMicrosecondsOnNamedTracks) {
  Tracer tracer(8);
  const int compute = tracer.add_track("compute");
  const int copies = tracer.add_track("host \"to\" device");
  tracer.record(compute, "linear", 1'000'000, 1'002'500);
  tracer.record(copies, "copy", 5, 10, 4096);
  const nlohmann::json trace = written(tracer, 3);

  const auto spans = events_of_kind(trace, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "linear");
  EXPECT_EQ(spans[0]["pid"], 3);
  EXPECT_EQ(spans[0]["tid"], compute);
  EXPECT_DOUBLE_EQ(spans[0]["ts"], 1000.0);
  EXPECT_DOUBLE_EQ(spans[0]["dur"], 2.5);
  EXPECT_FALSE(spans[0].contains("args"));
  EXPECT_DOUBLE_EQ(spans[1]["ts"], 0.005);
  EXPECT_EQ(spans[1]["args"]["bytes"], 4096);

  const auto names = events_of_kind(trace, "M");
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0]["args"]["name"], "rank 3");
  EXPECT_EQ(names[2]["args"]["name"], "host \"to\" device");
  EXPECT_EQ(trace["otherData"]["dropped_spans"], 0);
}

TEST(Tracer, CountsWhatDidNotFit) {
  Tracer tracer(2);
  const int track = tracer.add_track("compute");
  for (int i = 0; i < 5; ++i) tracer.record(track, "op", i, i + 1);
  const nlohmann::json trace = written(tracer, 0);
  EXPECT_EQ(events_of_kind(trace, "X").size(), 2u);
  EXPECT_EQ(trace["otherData"]["dropped_spans"], 3);
}

std::vector<std::int64_t> begins(const Tracer::RecentSpans& recent) {
  std::vector<std::int64_t> begins;
  for (const Tracer::Span& span : recent.spans) begins.push_back(span.begin_ns);
  return begins;
}

TEST(Tracer, GivesWhatIsRecentOnceAndKeepsItForTheFile) {
  Tracer tracer(8, 3);
  const int track = tracer.add_track("compute");
  Tracer::RecentSpans recent;
  for (int i = 0; i < 2; ++i) tracer.record(track, "op", i, i + 1, 10 * i);
  tracer.take_recent(recent);
  EXPECT_EQ(begins(recent), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(recent.spans[1].bytes, 10);
  EXPECT_EQ(recent.dropped, 0);
  for (int i = 2; i < 7; ++i) tracer.record(track, "op", i, i + 1);
  tracer.take_recent(recent);
  EXPECT_EQ(begins(recent), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(recent.dropped, 2) << "a full buffer says how much it lacks";
  tracer.take_recent(recent);
  EXPECT_TRUE(recent.spans.empty());
  EXPECT_EQ(recent.dropped, 0) << "dropped is of these spans alone";
  EXPECT_EQ(events_of_kind(written(tracer, 0), "X").size(), 7u);
}

// The two buffers change places: neither moves, so neither was allocated anew.
TEST(Tracer, TakingAllocatesNothingAfterTheFirst) {
  Tracer tracer(0, 100);
  Tracer::RecentSpans recent;
  std::set<const Tracer::Span*> memory;
  for (int step = 0; step < 6; ++step) {
    for (int i = 0; i < 150; ++i) tracer.record(0, "op", i, i + 1);
    tracer.take_recent(recent);
    EXPECT_EQ(recent.spans.size(), 100u);
    memory.insert(recent.spans.data());
  }
  EXPECT_EQ(memory.size(), 2u);
}

TEST(Tracer, PartsOfOneThreadShareATrack) {
  Tracer tracer(4);
  const TraceTrack main(&tracer, "main");
  const TraceTrack other(&tracer, "compute");
  EXPECT_EQ(TraceTrack(&tracer, "main").id, main.id);
  EXPECT_NE(other.id, main.id);
  EXPECT_EQ(tracer.tracks(), (std::vector<std::string>{"main", "compute"}));
  { const TraceSpan off(TraceTrack(nullptr, "main"), "op"); }
  { const TraceSpan on(main, "op"); }
  EXPECT_EQ(events_of_kind(written(tracer, 0), "X").size(), 1u);
}

TEST(Tracer, RecordsFromSeveralThreads) {
  Tracer tracer(2000);
  const int track = tracer.add_track("compute");
  const auto record_many = [&] {
    for (int i = 0; i < 500; ++i) const TraceSpan span(&tracer, track, "op", i);
  };
  std::thread other(record_many);
  record_many();
  other.join();
  EXPECT_EQ(events_of_kind(written(tracer, 0), "X").size(), 1000u);
}

TEST(TraceSpan, CoversItsScopeAndIsOffWithoutATracer) {
  { const TraceSpan off(nullptr, 0, "op"); }
  Tracer tracer(1);
  const int track = tracer.add_track("compute");
  const std::int64_t before_ns = Tracer::now_ns();
  { const TraceSpan span(&tracer, track, "op"); }
  const std::int64_t after_ns = Tracer::now_ns();
  const auto spans = events_of_kind(written(tracer, 0), "X");
  ASSERT_EQ(spans.size(), 1u);
  const double begin_us = spans[0]["ts"];
  const double end_us = begin_us + spans[0]["dur"].get<double>();
  // A double holds a nanosecond clock's microseconds to better than one: 2^53 ns is 104 days, and
  // the sum of two such doubles is off by at most one in the last place.
  EXPECT_GE(begin_us, static_cast<double>(before_ns) / 1000 - 0.01);
  EXPECT_LE(end_us, static_cast<double>(after_ns) / 1000 + 0.01);
}

TEST(Tracer, NamesTheFileItCannotWrite) {
  const Tracer tracer(1);
  const std::string text =
      test::error_text<IoError>([&] { tracer.write("/no/such/folder/trace.json", 0); });
  EXPECT_TRUE(test::mentions(text, "/no/such/folder/trace.json")) << text;
  EXPECT_TRUE(test::mentions(text, "No such file or directory")) << text;
  EXPECT_THROW(tracer.write("/dev/full", 0), IoError) << "a full disk shows at the latest on flush";
}

}  // namespace
}  // namespace strata
