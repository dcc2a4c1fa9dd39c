// The log: exactly the documented fields, null for what is absent, whole lines at once, no
// allocation, and no empty files left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/run/run_log.h"
#include "kernels/base/error.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using offload::Link;
using offload::MovedKind;
using test::allocation_count;
using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

using Json = nlohmann::ordered_json;

constexpr int kDrivesMax = 32;  // of a line without allocation

// Every number as long as it gets.
NvmeSums longest_sums() {
  constexpr io::StorageTraffic kLongest{std::numeric_limits<std::int64_t>::min(),
                                        std::numeric_limits<std::int64_t>::min()};
  NvmeSums sums;
  for (const offload::MovedKind kind : offload::kStoredKinds) {
    sums.moved.add(Link::nvme_read, kind, kLongest.read_bytes);
    sums.moved.add(Link::nvme_written, kind, kLongest.written_bytes);
  }
  sums.devices.assign(kDrivesMax, kLongest);
  return sums;
}

StepRecord longest_record(const NvmeSums& sums) {
  StepRecord record;
  record.nvme_sums = &sums;
  record.step = std::numeric_limits<std::int64_t>::max();
  record.epoch = record.loss = record.lr = -std::numeric_limits<double>::denorm_min();
  record.val_loss = record.grad_norm = -2.2250738585072014e-308;
  record.tokens = std::numeric_limits<std::int64_t>::min();
  record.targets = record.tokens;
  record.padding = -1.7976931348623157e308;
  record.tokens_per_s = record.mfu = record.step_s = -1.7976931348623157e308;
  record.bound_s = 1.7976931348623157e308;
  record.device_peak_bytes = record.host_peak_bytes = std::numeric_limits<std::int64_t>::min();
  for (int l = 0; l < offload::kLinks; ++l) {
    record.traffic.add(static_cast<Link>(l), MovedKind::weights,
                       std::numeric_limits<std::int64_t>::min());
  }
  record.commit_written_bytes = std::numeric_limits<std::int64_t>::min();
  return record;
}

TEST(RunLog, WritesExactlyTheDocumentedFields) {
  const TemporaryFolder folder;
  StepRecord record;
  record.step = 3;
  record.epoch = 0.25;
  record.loss = 0.1;  // not exact in binary: must survive the round trip
  record.val_loss = 4.5;
  record.lr = 3e-4;
  record.grad_norm = 1.0 / 3;
  record.tokens = 6144;
  record.targets = 1000;
  record.padding = 0.125;
  record.tokens_per_s = 20480.5;
  record.mfu = 0.5;
  record.step_s = 0.1;
  record.cpu_s = 0.15;
  record.bound_s = 0.08;
  record.device_peak_bytes = 1;
  record.host_peak_bytes = 2;
  record.traffic.add(Link::nvme_read, MovedKind::weights, 1);
  record.traffic.add(Link::nvme_read, MovedKind::activations, 2);
  record.traffic.add(Link::nvme_written, MovedKind::moment1, 4'000'000'000'000);
  record.traffic.add(Link::to_device, MovedKind::batch, 5);
  record.traffic.add(Link::from_device, MovedKind::gradients, 6);
  record.traffic.add(Link::gathered, MovedKind::weights, 7);
  record.traffic.add(Link::reduced, MovedKind::gradients, 8);
  record.commit_written_bytes = 9;
  record.committed_step = 2;
  NvmeSums sums;
  for (std::size_t k = 0; k < offload::kStoredKinds.size(); ++k) {
    sums.moved.add(Link::nvme_read, offload::kStoredKinds[k], 10 + static_cast<int>(k));
    sums.moved.add(Link::nvme_written, offload::kStoredKinds[k], 20 + static_cast<int>(k));
  }
  sums.devices = {{40, 41}, {42, 43}};
  record.nvme_sums = &sums;
  RunLog({folder.path("log.jsonl")}).write(record);

  const Json by_kind = {{"weights", {10, 20}}, {"remainder", {11, 21}}, {"moment1", {12, 22}},
                        {"moment2", {13, 23}}, {"gradients", {14, 24}}, {"activations", {15, 25}}};
  const Json expected = {{"step", 3},
                         {"epoch", 0.25},
                         {"loss", 0.1},
                         {"val_loss", 4.5},
                         {"lr", 3e-4},
                         {"grad_norm", 1.0 / 3},
                         {"tokens", 6144},
                         {"targets", 1000},
                         {"padding", 0.125},
                         {"tokens_per_s", 20480.5},
                         {"mfu", 0.5},
                         {"step_s", 0.1},
                         {"cpu_s", 0.15},
                         {"bound_s", 0.08},
                         {"device_peak_bytes", 1},
                         {"host_peak_bytes", 2},
                         {"nvme_read_bytes", 3},
                         {"nvme_written_bytes", 4'000'000'000'000},
                         {"to_device_bytes", 5},
                         {"from_device_bytes", 6},
                         {"gathered_bytes", 7},
                         {"reduced_bytes", 8},
                         {"commit_written_bytes", 9},
                         {"committed_step", 2},
                         {"nvme_by_kind", by_kind},
                         {"nvme_by_device", Json::parse("[[40,41],[42,43]]")}};
  EXPECT_EQ(Json::parse(contents_of(folder.path("log.jsonl"))), expected);
}

TEST(RunLog, WhatIsAbsentUnknownOrNotFiniteIsNull) {
  const TemporaryFolder folder;
  StepRecord record;
  record.step = 1;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  RunLog({folder.path("log.jsonl")}).write(record);
  const Json line = Json::parse(contents_of(folder.path("log.jsonl")));
  for (const char* name :
       {"loss", "val_loss", "grad_norm", "bound_s", "nvme_by_kind", "nvme_by_device"}) {
    EXPECT_TRUE(line.at(name).is_null()) << name;
  }
  EXPECT_EQ(line.at("lr"), 0);
}

TEST(RunLog, BeforeTrainingThereIsOnlyAValidationLoss) {
  const TemporaryFolder folder;
  StepRecord record;
  record.val_loss = 5.5;
  RunLog({folder.path("log.jsonl")}).write(record);
  const Json line = Json::parse(contents_of(folder.path("log.jsonl")));
  for (const char* name :
       {"loss", "lr", "grad_norm", "targets", "padding", "tokens_per_s", "mfu", "step_s", "cpu_s",
        "nvme_read_bytes", "to_device_bytes", "commit_written_bytes"}) {
    EXPECT_TRUE(line.at(name).is_null()) << name;
  }
  EXPECT_EQ(line.at("step"), 0);
  EXPECT_EQ(line.at("tokens"), 0);
  EXPECT_EQ(line.at("val_loss"), 5.5);
}

TEST(RunLog, AppendsToEveryFileLineByLine) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("old.jsonl")) << "{}\n";
  RunLog log({folder.path("old.jsonl"), folder.path("new.jsonl")});
  StepRecord record;
  record.step = 1;
  log.write(record);
  const std::string line = contents_of(folder.path("new.jsonl"));  // while the log is still open
  EXPECT_TRUE(line.ends_with("}\n"));
  EXPECT_EQ(contents_of(folder.path("old.jsonl")), "{}\n" + line);
}

TEST(RunLog, AllocatesNothingEvenForTheLongestLine) {
  const TemporaryFolder folder;
  RunLog log({folder.path("log.jsonl")});
  const NvmeSums sums = longest_sums();
  const StepRecord record = longest_record(sums);
  const std::int64_t before = allocation_count;
  log.write(record);
  EXPECT_EQ(allocation_count, before);
}

TEST(RunLog, LeavesNoEmptyFileBehind) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("old.jsonl"));
  { const RunLog log({folder.path("old.jsonl"), folder.path("new.jsonl")}); }
  EXPECT_TRUE(std::filesystem::exists(folder.path("old.jsonl")));  // it was there before
  EXPECT_FALSE(std::filesystem::exists(folder.path("new.jsonl")));
}

TEST(RunLog, ErrorsNameTheFile) {
  EXPECT_PRED2(mentions, error_text<IoError>([] { RunLog({"/nonexistent/log.jsonl"}); }),
               "/nonexistent/log.jsonl");
  RunLog full({"/dev/full"});
  EXPECT_PRED2(mentions, error_text<IoError>([&] { full.write({}); }),
               "/dev/full: No space left on device");
}

}  // namespace
}  // namespace strata::engine
