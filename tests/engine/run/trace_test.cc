// --trace: a Chrome trace of the streams, in which transfers run under compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using nlohmann::json;

struct Span {
  std::string name;
  double begin_us;
  double end_us;
};

class Trace {
 public:
  explicit Trace(const json& trace) {
    std::map<int, std::string> names;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "M" && event["name"] == "thread_name") {
        names[event["tid"]] = event["args"]["name"];
      }
    }
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double begin_us = event["ts"];
      tracks_[names.at(event["tid"])].push_back(
          {event["name"], begin_us, begin_us + event["dur"].get<double>()});
    }
  }

  const std::vector<Span>& track(const std::string& name) const { return tracks_.at(name); }

  // What share of the spans `name` of `track`, by time and from the first compute on, lies inside
  // kernels of the compute stream.
  double share_under_compute(const std::string& track_name, const std::string& name) const {
    std::vector<Span> compute = track("compute");
    std::erase_if(compute, [](const Span& span) { return span.name.starts_with("wait"); });
    double total_us = 0;
    double inside_us = 0;
    for (const Span& span : track(track_name)) {
      if (span.name != name || span.begin_us < compute.front().begin_us) continue;
      total_us += span.end_us - span.begin_us;
      for (const Span& kernel : compute) {
        inside_us += std::max(
            0.0, std::min(span.end_us, kernel.end_us) - std::max(span.begin_us, kernel.begin_us));
      }
    }
    EXPECT_GT(total_us, 0) << track_name;
    return total_us > 0 ? inside_us / total_us : 0;
  }

 private:
  std::map<std::string, std::vector<Span>> tracks_;
};

// Trains a model whose weights lie on NVMe for three steps.
Trace trace_of(const std::string& prefetch) {
  const test::TemporaryFolder folder;
  test::write_text(folder.path("text.txt"), 20'000);
  const test::ProcessResult result = test::run_process(
      {STRATA_BINARY,     "train",
       "--model",         "gpt2:layers=6,hidden=256,heads=4,context=128",
       "--data",          "text.txt",
       "--steps",         "3",
       "--global-batch",  "8",
       "--micro-batch",   "4",
       "--nvme",          ".",
       "--place",         "weights=nvme,remainder=host,moments=host,gradients=host",
       "--device-memory", "64MiB",
       "--host-memory",   "128MiB",
       "--threads",       "1",
       "--prefetch",      prefetch,
       "--trace",         "trace.json"},
      folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Trace(json::parse(test::contents_of(folder.path("trace.json"))));
}

TEST(TraceTest, TransfersRunUnderCompute) {
  const Trace trace = trace_of("2");
  // Two thirds is typical here.
  EXPECT_GT(trace.share_under_compute("nvme read", "read"), 0.3);
  EXPECT_GT(trace.share_under_compute("h2d", "copy"), 0.02);
}

// One slot on the device: the next unit is copied into it once the lease has ended. NVMe is still
// read ahead, into host memory.
TEST(TraceTest, WithoutPrefetchNothingIsCopiedUnderCompute) {
  EXPECT_LT(trace_of("0").share_under_compute("h2d", "copy"), 0.01);
}

}  // namespace
}  // namespace strata::engine
