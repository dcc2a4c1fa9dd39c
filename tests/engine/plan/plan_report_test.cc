// The table of the plan: every row is as wide as its head, for training and for generating. The
// JSON has what a step moves by link, and by kind.
#include "engine/plan/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
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

TEST(PlanJson, WhatAStepMovesIsThereByLinkAndKind) {
  engine::Options options;
  options.model = kLlama;
  options.place = "all=nvme";
  options.activations = "host";
  const auto comm = comm::make_single_rank_communicator();
  const engine::RunSetup setup = make_setup(options, *comm);
  const nlohmann::json per_step = engine::plan_json(setup)["per_step"];
  const offload::Traffic planned = setup.plan.step_traffic();
  offload::Traffic told;
  for (int l = 0; l < offload::kLinks; ++l) {
    const auto link = static_cast<offload::Link>(l);
    std::int64_t of_link = 0;
    for (const char* phase : {"forward", "backward"}) {
      of_link += per_step[phase][key_of(link)].get<std::int64_t>();
      for (int k = 0; k < offload::kMovedKinds; ++k) {
        const auto kind = static_cast<offload::MovedKind>(k);
        const nlohmann::json by_kind =
            per_step[phase]["by_kind"].value(key_of(link), nlohmann::json::object());
        told.add(link, kind, by_kind.value(name_of(kind), std::int64_t{0}));
      }
    }
    EXPECT_EQ(of_link, planned.bytes(link)) << key_of(link);
  }
  EXPECT_EQ(told, planned);
}

}  // namespace
}  // namespace strata::test
