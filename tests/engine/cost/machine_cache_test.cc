// What a cache of the machine gives back, and what it refuses to.
#include "engine/cost/machine_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "io/plain_file.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::TemporaryFolder;

RunSetup setup_of(std::int64_t micro_batch = 2, const std::string& model_sizes = "hidden=64") {
  Options options;
  options.model = "gpt2:layers=1,heads=2,context=32,vocab=256," + model_sizes;
  options.threads = 1;
  options.micro_batch = micro_batch;
  options.device_memory = 1 << 28;
  options.host_memory = 1 << 28;
  return make_run_setup(options, {}, {});
}

// Every number another one.
MachineRates rates_for(const RunSetup& setup) {
  MachineRates rates;
  double speed = 1e9;
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    rates.matmuls.push_back({shape.kind, shape.n, shape.k, Dtype::f32, speed += 0.1});
  }
  rates.default_arithmetic = Dtype::f32;
  rates.memory_bytes_per_s = 1.1e9;
  rates.core_memory_bytes_per_s = 0.9e9;
  rates.optimizer_bytes_per_s = 1.2e9;
  rates.checksum_bytes_per_s = 1.3e9;
  rates.network.bytes_per_s = 1.4e9;
  rates.nvme = {1.5e9, 1.6e9, 1.7e9, 1.8e-10, 1.3e-10};
  return rates;
}

class MachineCacheTest : public testing::Test {
 protected:
  MachineCache open() const { return {path(), identity_}; }
  std::string path() const { return folder_.path() + "/kept/machine.json"; }
  std::string text() const { return io::read_file(path()).value(); }

  TemporaryFolder folder_;
  MachineIdentity identity_{"Some Processor 9", 2, 1, 1 << 30, "avx512", "library 1.2", ""};
  RunSetup setup_ = setup_of();
  std::vector<std::string> directories_ = {folder_.path()};
};

TEST_F(MachineCacheTest, GivesBackWhatWasStoredToALaterProcess) {
  const MachineRates rates = rates_for(setup_);
  open().store_rates(setup_, directories_, rates);
  const MachineCache later = open();
  EXPECT_EQ(later.note(), "");
  const auto found = later.find_rates(setup_, directories_);
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->matmuls.size(), rates.matmuls.size());
  for (std::size_t i = 0; i < rates.matmuls.size(); ++i) {
    EXPECT_EQ(found->matmuls[i].flops_per_s, rates.matmuls[i].flops_per_s);
    EXPECT_EQ(found->matmuls[i].n, rates.matmuls[i].n);
    EXPECT_EQ(found->matmuls[i].arithmetic, Dtype::f32);
  }
  EXPECT_EQ(found->default_arithmetic, Dtype::f32);
  EXPECT_EQ(found->memory_bytes_per_s, rates.memory_bytes_per_s);
  EXPECT_EQ(found->core_memory_bytes_per_s, rates.core_memory_bytes_per_s);
  EXPECT_EQ(found->optimizer_bytes_per_s, rates.optimizer_bytes_per_s);
  EXPECT_EQ(found->checksum_bytes_per_s, rates.checksum_bytes_per_s);
  EXPECT_EQ(found->network.bytes_per_s, rates.network.bytes_per_s);
  EXPECT_EQ(found->nvme.read_bytes_per_s, rates.nvme.read_bytes_per_s);
  EXPECT_EQ(found->nvme.written_bytes_per_s, rates.nvme.written_bytes_per_s);
  EXPECT_EQ(found->nvme.mixed_bytes_per_s, rates.nvme.mixed_bytes_per_s);
  EXPECT_EQ(found->nvme.core_s_per_byte, rates.nvme.core_s_per_byte);
  EXPECT_EQ(found->nvme.core_s_per_byte_least, rates.nvme.core_s_per_byte_least);
}

TEST_F(MachineCacheTest, RatesAreOfTheirShapesFormatsAndDrives) {
  MachineCache cache = open();
  EXPECT_FALSE(cache.find_rates(setup_, directories_).has_value());
  cache.store_rates(setup_, directories_, rates_for(setup_));
  EXPECT_TRUE(cache.find_rates(setup_, directories_).has_value());
  EXPECT_FALSE(cache.find_rates(setup_of(1), directories_).has_value());
  EXPECT_FALSE(cache.find_rates(setup_of(2, "hidden=128"), directories_).has_value());
  RunSetup rounded = setup_;
  rounded.options.moments = "int8";
  EXPECT_FALSE(cache.find_rates(rounded, directories_).has_value());
  RunSetup deeper = setup_;  // has more state, which a cache may not hold
  for (const offload::UnitPlan& unit : setup_.plan.units) {
    deeper.plan.units.insert(deeper.plan.units.end(), 3, unit);
  }
  EXPECT_FALSE(cache.find_rates(deeper, directories_).has_value());
  const std::vector<std::string> other_file_system = {"/proc"};
  EXPECT_FALSE(cache.find_rates(setup_, other_file_system).has_value());
  const std::vector<std::string> missing = {folder_.path() + "/missing"};
  EXPECT_FALSE(cache.find_rates(setup_, missing).has_value());
  // A run that has nothing on NVMe asks for no drive.
  const auto without = cache.find_rates(setup_, {});
  ASSERT_TRUE(without.has_value());
  EXPECT_FALSE(without->nvme.in_use());
}

TEST_F(MachineCacheTest, UpdatesAreKeptByTheFormatsOfTheirState) {
  open().store_rates(setup_, directories_, rates_for(setup_));
  RunSetup rounded = setup_;
  rounded.options.moments = "int8";
  EXPECT_FALSE(open().find_optimizer(rounded).has_value());
  open().store_optimizer(rounded, 2e8);
  const MachineCache later = open();
  EXPECT_EQ(later.find_optimizer(rounded), 2e8);
  EXPECT_EQ(later.find_optimizer(setup_), 1.2e9);
  EXPECT_EQ(later.find_rates(rounded, directories_)->optimizer_bytes_per_s, 2e8);
}

TEST_F(MachineCacheTest, WhatCouldNotBeMeasuredIsNotKept) {
  MachineCache cache = open();
  MachineRates rates = rates_for(setup_);
  rates.nvme = {};
  cache.store_rates(setup_, directories_, rates);
  EXPECT_FALSE(cache.find_rates(setup_, directories_).has_value());
  EXPECT_TRUE(cache.find_rates(setup_, {}).has_value());
  cache.store_rates(setup_, directories_, rates_for(setup_));
  rates.memory_bytes_per_s = 0;  // a budget too small to measure in
  cache.store_rates(setup_, directories_, rates);
  EXPECT_EQ(cache.find_rates(setup_, directories_)->memory_bytes_per_s, 1.1e9);
}

TEST_F(MachineCacheTest, KeepsTheCostOfLayersByTheirShapesAndArithmetic) {
  MachineRates rates = rates_for(setup_);
  ComputeCost cost;
  cost.block_forward[Work::matmul] = 0.1;
  cost.block_backward[Work::attention] = 0.2;
  cost.embedding_backward[Work::elementwise] = 0.3;
  cost.slowdown = 1.1;
  open().store_compute(setup_, rates, cost);
  const MachineCache later = open();
  const auto found = later.find_compute(setup_, rates);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->block_forward.of, cost.block_forward.of);
  EXPECT_EQ(found->block_backward.of, cost.block_backward.of);
  EXPECT_EQ(found->head_forward.of, cost.head_forward.of);
  EXPECT_EQ(found->embedding_backward.of, cost.embedding_backward.of);
  EXPECT_EQ(found->slowdown, cost.slowdown);
  EXPECT_FALSE(later.find_compute(setup_of(1), rates).has_value());
  rates.matmuls.front().arithmetic = Dtype::bf16;
  EXPECT_FALSE(later.find_compute(setup_, rates).has_value());
}

TEST_F(MachineCacheTest, WhatIsDamagedIsNotUsedAndReplaced) {
  const MachineRates rates = rates_for(setup_);
  open().store_rates(setup_, directories_, rates);
  const std::string whole = text();
  std::string changed = whole;
  changed.replace(changed.find("1100000000"), 1, "9");  // still valid JSON
  for (const std::string& damaged : {changed, whole.substr(0, whole.size() / 2), std::string()}) {
    io::replace_file(path(), damaged);
    MachineCache cache = open();
    EXPECT_NE(cache.note(), "");
    EXPECT_FALSE(cache.find_rates(setup_, directories_).has_value());
    cache.store_rates(setup_, directories_, rates);
    EXPECT_EQ(text(), whole);
  }
}

TEST_F(MachineCacheTest, WhatIsOfAnotherMachineIsNotUsed) {
  open().store_rates(setup_, directories_, rates_for(setup_));
  identity_.matmul_library = "library 1.3";
  const MachineCache other = open();
  EXPECT_NE(other.note().find("another machine"), std::string::npos) << other.note();
  EXPECT_FALSE(other.find_rates(setup_, directories_).has_value());
}

TEST_F(MachineCacheTest, ARunGoesOnWhereNothingCanBeKept) {
  MachineCache cache("/proc/no/such/place.json", identity_);
  cache.store_rates(setup_, directories_, rates_for(setup_));
  EXPECT_NE(cache.note(), "");
  EXPECT_TRUE(cache.find_rates(setup_, directories_).has_value());  // by this process
}

TEST_F(MachineCacheTest, EachIdentityHasAFileOfItsOwn) {
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  const MachineIdentity here = identify_machine(setup_);
  EXPECT_NE(here.processor, "");
  EXPECT_GT(here.memory_bytes, 0);
  EXPECT_EQ(here.threads, 1);
  const std::string path = machine_cache_path(here);
  EXPECT_TRUE(path.starts_with(folder_.path() + "/strata/machine-")) << path;
  EXPECT_NE(machine_cache_path(identity_), path);
  setenv("HOME", "/somewhere", 1);
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_TRUE(machine_cache_path(here).starts_with("/somewhere/.cache/strata/"));
  unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(machine_cache_path(here).starts_with("/somewhere/.cache/strata/"));
  unsetenv("HOME");
  EXPECT_EQ(machine_cache_path(here), "");
}

}  // namespace
}  // namespace strata::engine
