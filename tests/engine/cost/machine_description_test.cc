// Descriptions of machines: strictly read, and what a run on them would have.
#include "engine/cost/machine_description.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "engine/run/search_target.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;

bool mentions(const std::string& text, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const char* part) { return test::mentions(text, part); });
}

nlohmann::json two_gpus() {
  return nlohmann::json::parse(R"({
    "name": "Two cards", "sources": ["data sheet"], "hosts": 3, "ranks_per_host": 2,
    "network_rate": "2GB/s",
    "gpu": {"name": "Card", "count": 2, "memory": "24GiB", "memory_reserved": "1GiB",
            "bf16_flops": "160TFLOP/s", "f32_flops": "80TFLOP/s", "flops_reached": 0.5,
            "memory_rate": "1TB/s", "to_device_rate": "20GB/s", "from_device_rate": "22GB/s"},
    "host": {"processor": "Some", "cores": 16, "f32_flops": "1TFLOP/s", "memory": "64GiB",
             "memory_reserved": "4GiB", "memory_rate": "60GB/s", "checksum_rate": "40GB/s"},
    "drives": {"name": "Drive", "count": 2, "capacity": "2TB", "read_rate": "7GB/s",
               "write_rate": "6GB/s", "mixed_rate": "8GB/s", "endurance": "1200TBW"}})");
}

nlohmann::json cores_only() {
  nlohmann::json json = two_gpus();
  json.erase("gpu");
  return json;
}

MachineDescription parse(const nlohmann::json& json) {
  return parse_machine_description(json.dump());
}

std::string refusal(const nlohmann::json& json) {
  return error_text<ConfigError>([&] { parse(json); });
}

Options small_options() {
  Options options;
  options.model = "gpt2:layers=2,hidden=64,heads=2,context=32,vocab=256";
  options.machine = "described.json";
  return options;
}

// With its whole memory, as plan has it.
RunSetup setup_on(const MachineDescription& machine, const Options& options = small_options()) {
  Options there = options_for(machine, options);
  const SearchPlace place = place_of(machine, there);
  there = with_budgets(there, even_budgets(there, place), place.topology);
  return make_run_setup(there, place.topology, place.comm_staging);
}

TEST(MachineDescription, ReadsEveryFigureWithItsUnit) {
  const MachineDescription machine = parse(two_gpus());
  EXPECT_EQ(machine.ranks(), 6);
  EXPECT_EQ(machine.network_bytes_per_s, 2e9);
  EXPECT_EQ(machine.gpu.memory_bytes, 24 * kGiB);
  EXPECT_EQ(machine.gpu.reserved_bytes, kGiB);
  EXPECT_EQ(machine.gpu.matmul.bf16_per_s, 160e12);
  EXPECT_EQ(machine.gpu.matmul.reached, 0.5);
  EXPECT_EQ(machine.gpu.memory_bytes_per_s, 1e12);
  EXPECT_EQ(machine.gpu.to_device_bytes_per_s, 20e9);
  EXPECT_EQ(machine.host.cores, 16);
  EXPECT_EQ(machine.host.matmul.bf16_per_s, 0);
  EXPECT_EQ(machine.host.matmul.reached, 1);
  EXPECT_EQ(machine.drive.capacity_bytes, 2'000'000'000'000);
  EXPECT_EQ(machine.drive.written_bytes_per_s, 6e9);
  EXPECT_EQ(machine.drive.endurance_bytes, 1'200'000'000'000'000);
}

TEST(MachineDescription, RefusesWhatItDoesNotKnowAndSaysWhere) {
  nlohmann::json json = two_gpus();
  json["gpu"]["memory_rates"] = "1TB/s";
  EXPECT_TRUE(mentions(refusal(json), {"gpu.memory_rates", "memory_rate"}));
  json = two_gpus();
  json["gpu"].erase("memory");
  EXPECT_TRUE(mentions(refusal(json), {"gpu.memory is missing"}));
  json = two_gpus();
  json["drives"]["read_rate"] = "7GB";
  EXPECT_TRUE(mentions(refusal(json), {"drives.read_rate", "7GB/s"}));
  json = two_gpus();
  json["gpu"]["bf16_flops"] = 160;
  EXPECT_TRUE(mentions(refusal(json), {"gpu.bf16_flops"}));
  json["gpu"]["bf16_flops"] = "-1TFLOP/s";
  EXPECT_TRUE(mentions(refusal(json), {"gpu.bf16_flops", "TFLOP/s"}));
  json = two_gpus();
  json["gpu"]["flops_reached"] = 1.5;
  EXPECT_TRUE(mentions(refusal(json), {"gpu.flops_reached", "at most 1"}));
  json = two_gpus();
  json["hosts"] = 0;
  EXPECT_TRUE(mentions(refusal(json), {"hosts", "from 1"}));
  json = two_gpus();
  json["host"]["core_memory_rate"] = "61GB/s";
  EXPECT_TRUE(mentions(refusal(json), {"host.core_memory_rate", "host.memory_rate"}));
  json["host"].erase("core_memory_rate");
  json["host"]["memory_reserved"] = "64GiB";
  EXPECT_TRUE(mentions(refusal(json), {"host.memory_reserved"}));
}

TEST(MachineDescription, RefusesMachinesThatCannotBe) {
  EXPECT_TRUE(mentions(error_text<ConfigError>([] {
                         parse_machine_description(
                             R"({"name": "a", "gpu": {"name": "b"}, "name": "c"})");
                       }),
                       {"name stands twice"}));
  nlohmann::json empty = two_gpus();
  empty["drives"]["capacity"] = "0GB";
  EXPECT_TRUE(mentions(refusal(empty), {"drives.capacity", "above 0"}));
  empty["drives"]["capacity"] = "8000000TB";
  EXPECT_TRUE(mentions(refusal(empty), {"drives.capacity", "at most 1 PiB"}));
  nlohmann::json json = two_gpus();
  json["ranks_per_host"] = 1;
  EXPECT_TRUE(mentions(refusal(json), {"gpu.count", "ranks_per_host"}));
  json = two_gpus();
  json.erase("network_rate");
  EXPECT_TRUE(mentions(refusal(json), {"network_rate is missing", "6 ranks"}));
  EXPECT_TRUE(mentions(error_text<ConfigError>([] { parse_machine_description("{\"name\": "); }),
                       {"JSON"}));
  EXPECT_TRUE(
      mentions(error_text<ConfigError>([] { read_machine_description("/no/such/machine.json"); }),
               {"/no/such/machine.json"}));
}

TEST(MachineDescription, BudgetsAreItsMemoryUnlessGiven) {
  const MachineDescription machine = parse(two_gpus());
  RunSetup setup = setup_on(machine);
  EXPECT_EQ(setup.topology.world_size, 6);
  EXPECT_EQ(setup.threads, 8);
  EXPECT_EQ(setup.plan.device_memory_bytes, 23 * kGiB);
  EXPECT_EQ(setup.plan.host_memory_bytes, 30 * kGiB);  // of a rank
  Options options = small_options();
  options.device_memory = 8 * kGiB;
  setup = setup_on(machine, options);
  EXPECT_EQ(setup.plan.device_memory_bytes, 8 * kGiB);
  options.device_memory = 24 * kGiB;
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { options_for(machine, options); }),
                       {"--device-memory", "23 GiB"}));
}

TEST(MachineDescription, WithoutAGpuBothTiersAreTheHostsMemory) {
  const MachineDescription machine = parse(cores_only());
  RunSetup setup = setup_on(machine);
  EXPECT_EQ(setup.plan.device_memory_bytes, 15 * kGiB);  // 60 GiB, half of it for two ranks
  EXPECT_EQ(setup.plan.host_memory_bytes, 15 * kGiB);
  Options options = small_options();
  options.host_memory = 40 * kGiB;
  setup = setup_on(machine, options);
  EXPECT_EQ(setup.plan.device_memory_bytes, 10 * kGiB);
  options.device_memory = 11 * kGiB;
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { options_for(machine, options); }),
                       {"--host-memory", "62 GiB", "60 GiB"}));
}

TEST(MachineDescription, RefusesOptionsThatContradictIt) {
  const MachineDescription machine = parse(cores_only());
  const auto refused = [&](auto set, const char* name) {
    Options options = small_options();
    set(options);
    return mentions(error_text<ConfigError>([&] { options_for(machine, options); }), {name});
  };
  EXPECT_TRUE(refused([](Options& o) { o.device = "cuda"; }, "--device"));
  EXPECT_TRUE(refused([](Options& o) { o.threads = 4; }, "--threads"));
  EXPECT_TRUE(refused([](Options& o) { o.resume = true; }, "--resume"));
  nlohmann::json json = cores_only();
  json.erase("drives");
  Options options = small_options();
  options.nvme = "/somewhere";
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { options_for(parse(json), options); }),
                       {"--nvme", "no drives"}));
}

TEST(MachineDescription, RatesAreTheShareOfARank) {
  const MachineDescription machine = parse(two_gpus());
  const MachineRates rates = rates_of(machine, setup_on(machine));
  ASSERT_TRUE(rates.gpu.has_value());
  EXPECT_EQ(rates.gpu->flops_per_s, 80e12);  // half of the peak
  EXPECT_EQ(rates.gpu->from_device_bytes_per_s, 22e9);
  EXPECT_EQ(rates.memory_bytes_per_s, 30e9);
  EXPECT_EQ(rates.core_memory_bytes_per_s, 16e9);  // more than a share of it
  EXPECT_EQ(rates.checksum_bytes_per_s, 20e9);
  EXPECT_EQ(rates.nvme.read_bytes_per_s, 7e9);  // two drives, two ranks
  EXPECT_EQ(rates.nvme.mixed_bytes_per_s, 8e9);
  EXPECT_EQ(rates.network.bytes_per_s, 2e9);
}

TEST(MachineDescription, ArithmeticIsWhatIsFasterOrAskedFor) {
  const MachineDescription gpus = parse(two_gpus());
  Options options = small_options();
  options.matmul_dtype = "f32";
  EXPECT_EQ(rates_of(gpus, setup_on(gpus, options)).gpu->flops_per_s, 40e12);
  const MachineDescription cores = parse(cores_only());
  const MachineRates rates = rates_of(cores, setup_on(cores));
  EXPECT_FALSE(rates.gpu.has_value());
  EXPECT_EQ(rates.default_arithmetic, Dtype::f32);
  EXPECT_EQ(rates.matmul_peak_flops_per_s(), 0.5e12);
  options.matmul_dtype = "bf16";
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] { rates_of(cores, setup_on(cores, options)); }),
                       {"host.bf16_flops"}));
}

TEST(MachineDescription, TheMachinesOfTheDocumentationAreRead) {
  int machines = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/docs/machines")) {
    if (entry.path().extension() != ".json") continue;
    const MachineDescription machine = read_machine_description(entry.path());
    EXPECT_GT(rates_of(machine, setup_on(machine,
                                         [&] {
                                           Options options = small_options();
                                           options.global_batch = machine.ranks();
                                           return options;
                                         }()))
                  .memory_bytes_per_s,
              0)
        << entry.path();
    ++machines;
  }
  EXPECT_GE(machines, 5);
}

}  // namespace
}  // namespace strata::engine
