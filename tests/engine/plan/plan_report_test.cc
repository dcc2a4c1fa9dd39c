// The table of the plan: every row is as wide as its head, for training and for generating.
#include "engine/plan/plan_report.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/support/engine_run.h"

namespace strata::test {
namespace {

constexpr const char* kLlama =
    "llama:layers=2,hidden=32,heads=4,kv-heads=2,intermediate=48,context=16";

void expect_columns(engine::Options options, engine::Purpose purpose) {
  options.model = kLlama;
  options.place = "all=host";
  const auto comm = comm::make_single_rank_communicator();
  const engine::RunSetup setup = engine::make_run_setup(
      options, comm->topology(), comm->staging_bytes(), offload::kBlockElements, purpose);
  std::istringstream lines(engine::plan_table(setup));
  std::string head;
  std::getline(lines, head);
  EXPECT_TRUE(head.starts_with("bytes held")) << head;
  int rows = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("total"); ++rows) {
    EXPECT_EQ(line.size(), head.size()) << line;
  }
  EXPECT_GT(rows, 5);
}

TEST(PlanTable, RowsOfTrainingWithSamplesKeepTheColumns) {
  engine::Options options;
  options.sample_tokens = 4;
  expect_columns(options, engine::Purpose::training);
}

TEST(PlanTable, RowsOfGeneratingKeepTheColumns) {
  engine::Options options;
  options.prompt = "text";
  expect_columns(options, engine::Purpose::inference);
}

}  // namespace
}  // namespace strata::test
