// The page of a report, of a folder made up here: every section, what is missing, and text that
// would break out of the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stack>

#include "engine/profile/report_data.h"
#include "engine/profile/report_page.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

void write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.path(name), std::ios::binary) << text;
}

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

// Every tag is closed in its order. Of scripts and styles only the end counts.
void expect_well_formed(const std::string& page) {
  std::stack<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    at = end + 1;
    if (tag.front() == '!' || tag.back() == '/') continue;
    if (tag.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.top(), tag.substr(1));
      open.pop();
      continue;
    }
    open.push(name);
    if (name == "script" || name == "style") at = page.find("</" + name + ">", at);
  }
  EXPECT_TRUE(open.empty()) << open.top() << " is not closed";
}

TEST(Report, WhatIsNoRunIsRefused) {
  const TemporaryFolder folder;
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { read_report_data(folder.path("none")); }),
               folder.path("none"));
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { read_report_data(folder.path()); }),
               "options.json is missing, so there is no run in it");
  write(folder, "options.json", "{}");
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { read_report_data(folder.path()); }),
               "options.json names no model, so it is of no run");
}

// A run from before there were profiles, still writing its third line.
TEST(Report, WhatIsMissingIsSaid) {
  const TemporaryFolder folder;
  write(folder, "options.json", R"({"model":"gpt2-124m"})");
  write(
      folder, "log.jsonl",
      "{\"step\":1,\"loss\":2.5,\"val_loss\":null}\n{\"step\":2,\"loss\":2.25}\n{\"step\":3,\"lo");
  const ReportData data = read_report_data(folder.path());
  EXPECT_EQ(data.log.size(), 2u);
  const std::string page = report_page(data);
  expect_well_formed(page);
  EXPECT_PRED2(mentions, page, "profile.jsonl is missing");
  EXPECT_PRED2(mentions, page, "timeline.json is missing");
  EXPECT_PRED2(mentions, page, "plan.json is missing");
  EXPECT_FALSE(mentions(page, "damaged")) << "the line that a run is writing is no damage";
  EXPECT_EQ(data_of(page)["log"]["loss"], (json{2.5, 2.25}));
}

TEST(Report, DamageIsSaid) {
  const TemporaryFolder folder;
  write(folder, "options.json", R"({"model":"gpt2-124m"})");
  write(folder, "plan.json", "{\"tiers\":");
  write(folder, "log.jsonl", "{\"step\":1,\"loss\":2.5}\n0000\n{\"step\":2,\"loss\":2.25}\n");
  const ReportData data = read_report_data(folder.path());
  const std::string page = report_page(data);
  EXPECT_PRED2(mentions, page, "plan.json is damaged");
  EXPECT_PRED2(mentions, page, "log.jsonl: 1 of its lines are damaged");
  EXPECT_EQ(data_of(page)["log"]["step"], (json{1, 2}));
}

TEST(Report, TextOfARunStaysText) {
  const TemporaryFolder folder;
  const std::string name = "</script><b>&\"'";
  write(folder, "options.json", json{{"model", name}, {"data", "a<b>.txt"}}.dump());
  write(folder, "log.jsonl", "{\"step\":1,\"loss\":1}\n");
  write(folder, "timeline.json",
        json{{"limit", "x<y"},
             {"median",
              {{"profile", {{"step", 1}, {"wall_s", 1.0}, {"rows", json::array()}}},
               {"rows", {name}},
               {"names", {name}},
               {"spans_us", json::array()}}},
             {"slowest", json::object()}}
            .dump());
  const std::string page = report_page(read_report_data(folder.path()));
  expect_well_formed(page);
  EXPECT_FALSE(mentions(page, "</script><b>"));
  EXPECT_PRED2(mentions, page, "&lt;/script&gt;&lt;b&gt;&amp;&quot;");
  EXPECT_EQ(data_of(page)["timeline"]["median"]["names"][0], name);
}

TEST(Report, NeedsNoNetwork) {
  const TemporaryFolder folder;
  write(folder, "options.json", R"({"model":"gpt2-124m"})");
  const std::string page = report_page(read_report_data(folder.path()));
  for (const char* const reference : {"http:", "https:", "src=", "href=", "url(", "import "}) {
    EXPECT_FALSE(mentions(page, reference)) << reference;
  }
}

TEST(Report, LongLogsAreThinned) {
  std::vector<json> lines;
  for (int step = 0; step < 10'001; ++step) {
    lines.push_back({{"step", step}, {"val_loss", step == 77 ? json(1.0) : json()}});
  }
  const auto kept = thinned(lines, 100, "val_loss");
  EXPECT_LE(kept.size(), 102u);
  EXPECT_EQ(kept.front()->at("step"), 0);
  EXPECT_EQ(kept.back()->at("step"), 10'000);
  EXPECT_TRUE(
      std::any_of(kept.begin(), kept.end(), [](const json* l) { return (*l)["step"] == 77; }));
  EXPECT_TRUE(thinned({}, 100, nullptr).empty());
}

}  // namespace
}  // namespace strata::engine
