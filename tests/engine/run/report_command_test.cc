// What a run keeps of where its time went, --profile, and the page that `strata report` makes of
// it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::json_lines;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 5;

class ReportCommand : public DurableRuns {
 protected:
  ReportCommand() : DurableRuns(kSteps) {}

  static Words on_nvme(const Words& more) {
    return Words{"--place",        "all=nvme", "--activations", "nvme",
                 "--val-fraction", "0.2",      "--warmup",      "0"} +
           more;
  }
  std::vector<json> lines_of(const std::string& name) const {
    return json_lines(test::contents_of(path(name)));
  }
  std::string report(const Words& more) const {
    const ProcessResult result = strata(Words{"report", "run"} + more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
};

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

double sum(const json& times) {
  return std::accumulate(times.begin(), times.end(), 0.0,
                         [](double sum, const json& seconds) { return sum + double(seconds); });
}

TEST_F(ReportCommand, TheFolderHasALinePerStepWhoseTimesAddUp) {
  complete("run", on_nvme({}));
  const std::vector<json> lines = lines_of("run/profile.jsonl");
  ASSERT_EQ(lines.size(), std::size_t{kSteps});
  for (int step = 1; step <= kSteps; ++step) {
    const json& line = lines[static_cast<std::size_t>(step - 1)];
    EXPECT_EQ(line["step"], step);
    EXPECT_EQ(line["dropped_spans"], 0);
    EXPECT_GT(line["held_bytes"]["host"], 0);
    EXPECT_GT(line["held_bytes"]["resident"], 0);
    for (const char* const row : {"cores", "drive", "compute", "fetch", "main"}) {
      ASSERT_TRUE(line["rows"].contains(row)) << row;
      EXPECT_GT(line["rows"][row]["work"], 0) << row;
    }
    // Each of at most 12 numbers is rounded to a microsecond.
    for (const auto& [row, times] : line["rows"].items()) {
      EXPECT_NEAR(sum(times), line["wall_s"], 12e-6) << row;
    }
  }
}

TEST_F(ReportCommand, ThePageHasTheNumbersOfTheLog) {
  complete("run", on_nvme({}));
  report({"--output", "page.html"});
  const std::string page = test::contents_of(path("page.html"));
  for (const char* const part :
       {"Loss", "Learning rate", "Time of a step", "Throughput", "Bytes per link", "Memory by tier",
        "Timeline of the median step", "Timeline of the slowest step",
        "Where the time of the median step went", "The run is limited by", "The run",
        "Its options"}) {
    EXPECT_PRED2(mentions, page, std::string(part));
  }
  EXPECT_FALSE(mentions(page, "Not on this page"));
  const json data = data_of(page);
  const std::vector<json> log = lines_of("run/log.jsonl");
  for (const char* const field : {"step", "loss", "val_loss", "lr", "step_s", "bound_s",
                                  "tokens_per_s", "nvme_read_bytes", "nvme_written_bytes"}) {
    ASSERT_EQ(data["log"][field].size(), log.size()) << field;
    for (std::size_t i = 0; i < log.size(); ++i) {
      EXPECT_EQ(data["log"][field][i], log[i][field]) << field << " of line " << i;
    }
  }
  const json plan = json::parse(test::contents_of(path("run/plan.json")));
  EXPECT_EQ(data["budgets"]["host"], plan["tiers"]["host"]["budget_bytes"]);
  EXPECT_EQ(data["profile"]["step"].size(), std::size_t{kSteps});
  EXPECT_FALSE(data["timeline"]["slowest"]["spans_us"].empty());
}

TEST_F(ReportCommand, LinesEndWhereARunGoesOn) {
  complete("run", on_nvme({"--steps", "3", "--lr-schedule", "constant"}));
  // Of steps that the run was not committed at.
  for (const char* const line : {"{\"step\":4,\"wall_s\":1}\n", "{\"step\":5"}) {
    std::ofstream(path("run/profile.jsonl"), std::ios::app) << line;
  }
  complete("run", on_nvme({"--lr-schedule", "constant", "--resume"}));
  std::vector<std::int64_t> steps;
  for (const json& line : lines_of("run/profile.jsonl")) steps.push_back(line["step"]);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  report({});
  EXPECT_EQ(data_of(test::contents_of(path("run/report.html")))["profile"]["step"],
            (json{1, 2, 3, 4, 5}));
}

TEST_F(ReportCommand, AnOldFolderHasAPageThatSaysWhatIsMissing) {
  complete("run", on_nvme({}));
  for (const char* const name : {"run/profile.jsonl", "run/timeline.json"}) {
    std::filesystem::remove(path(name));
  }
  const std::string out = report({});
  EXPECT_PRED2(mentions, out, "profile.jsonl is missing");
  EXPECT_PRED2(mentions, out, "timeline.json is missing");
  EXPECT_PRED2(mentions, test::contents_of(path("run/report.html")), "Not on this page");
}

TEST_F(ReportCommand, APipeIsNoPlaceForAPage) {
  complete("run", {"--warmup", "0"});
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const ProcessResult result = strata({"report", "run", "--output", "pipe"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "strata: error: replace pipe: it is no regular file\n");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(ReportCommand, ProfileShowsTheTableWithoutAFolder) {
  const ProcessResult text = train("", {"--profile", "--warmup", "0"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_PRED2(mentions, text.out, "\nprofile\nmedian step (");
  EXPECT_PRED2(mentions, text.out, "\nlimited by");

  const ProcessResult result = train("", {"--profile", "--json", "--warmup", "0"});
  const std::vector<json> lines = json_lines(result.out);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_TRUE(lines.back().contains("wall_s")) << "the summary is the last line";
  const json& profile = lines[lines.size() - 2]["profile"];
  EXPECT_GE(profile["slowest"]["wall_s"], profile["median"]["wall_s"]);
  for (const json& row : profile["median"]["rows"]) {
    // Seconds are doubles: what adds up in nanoseconds does so to rounding.
    EXPECT_NEAR(sum(row["work"]) + sum(row["idle"]), profile["median"]["wall_s"], 1e-9)
        << row["row"];
  }
}

TEST_F(ReportCommand, WhatIsNoRunIsRefused) {
  for (const Words& words : {Words{"report"}, Words{"report", "a", "b"}, Words{"report", "none"}}) {
    const ProcessResult result = strata(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
  }
  EXPECT_PRED2(mentions, strata({"report", "."}).err, "there is no run in it");
}

}  // namespace
}  // namespace strata::engine
