// The arithmetic of a run: recorded, read back, required of the machine that goes on, and used
// there.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/cost/machine_rates.h"
#include "engine/plan/recorded_arithmetic.h"
#include "engine/plan/run_setup.h"
#include "kernels/base/error.h"
#include "tests/engine/cost/small_machine.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;
using test::TemporaryFolder;

Options one_layer() {
  Options options;
  options.model = "gpt2:layers=1,hidden=64,heads=2,context=32,vocab=256";
  options.threads = 1;
  options.device_memory = 1 << 28;
  options.host_memory = 1 << 28;
  return options;
}

class RecordingMachine : public SmallMachine {
 public:
  explicit RecordingMachine(const Options& options = one_layer()) : SmallMachine(options) {}

  MachineRates measure(const RecordedArithmetic* recorded) {
    return measure_machine(setup(), device(), workers(), nullptr, comm(), recorded);
  }
  RecordedArithmetic record(const MachineRates& rates) const {
    return read_arithmetic(arithmetic_json(setup(), rates));
  }
};

const nlohmann::json kRecord = {{"isa", "avx512"},
                                {"matmul_library", "oneDNN 2.6.3, avx512_core_bf16"},
                                {"precision", "bf16"},
                                {"default", "f32"},
                                {"matmuls",
                                 {{{"kind", "forward"},
                                   {"n", 2304},
                                   {"k", 768},
                                   {"arithmetic", "bf16"},
                                   {"flops_per_s", 1.5e11}},
                                  {{"kind", "backward_weight"},
                                   {"n", 2304},
                                   {"k", 768},
                                   {"arithmetic", "f32"},
                                   {"flops_per_s", 2e10}}}}};

TEST(RecordedArithmetic, IsReadAndWrittenAsDocumented) {
  const RecordedArithmetic read = read_arithmetic(kRecord);
  EXPECT_EQ(read.isa, "avx512");
  EXPECT_EQ(read.default_arithmetic, Dtype::f32);
  ASSERT_EQ(read.matmuls.size(), 2u);
  EXPECT_EQ(read.matmuls[1].kind, ops::MatmulKind::backward_weight);
  EXPECT_EQ(read.matmuls[0].arithmetic, Dtype::bf16);
  EXPECT_EQ(arithmetic_json(read), kRecord);
  EXPECT_EQ(read.choice_of({ops::MatmulKind::backward_weight, 2304, 768, 1}), &read.matmuls[1]);
  EXPECT_EQ(read.choice_of({ops::MatmulKind::backward_weight, 2304, 769, 1}), nullptr);
}

TEST(RecordedArithmetic, WhatIsNoneIsRefused) {
  const auto error_with = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = kRecord;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return error_text<FormatError>([&] { read_arithmetic(json); });
  };
  EXPECT_PRED2(mentions, error_text<FormatError>([] { read_arithmetic(nlohmann::json{}); }),
               "no arithmetic of a run");
  EXPECT_PRED2(mentions, error_with("/default", "f16"), "'f16' is neither");
  EXPECT_PRED2(mentions, error_with("/matmuls/0/kind", "sideways"), "'sideways'");
  EXPECT_PRED2(mentions, error_with("/matmuls/0/n", "many"), "no arithmetic of a run");
}

TEST(RecordedArithmetic, IsUsedAndNotChosenAgain) {
  RecordingMachine machine;
  RecordedArithmetic recorded = machine.record(machine.measure(nullptr));
  std::vector<Dtype> possible = {Dtype::f32};
  if (ops::multiplies_bf16(machine.device())) possible.push_back(Dtype::bf16);
  for (const Dtype arithmetic : possible) {  // one of them is not what measuring would choose
    recorded.default_arithmetic = arithmetic;
    for (ops::MatmulChoice& choice : recorded.matmuls) choice.arithmetic = arithmetic;
    const MachineRates rates = machine.measure(&recorded);
    EXPECT_EQ(rates.default_arithmetic, arithmetic);
    ASSERT_EQ(rates.matmuls.size(), matmul_shapes(machine.setup().shape).size());
    for (const ops::MatmulChoice& choice : rates.matmuls) {
      EXPECT_EQ(choice.arithmetic, arithmetic);
      EXPECT_GT(choice.flops_per_s, 0);  // of this machine, for the bound
    }
  }
}

TEST(RecordedArithmetic, IsRequiredOfTheMachineByName) {
  RecordingMachine machine;
  const RecordedArithmetic recorded = machine.record(machine.measure(nullptr));
  EXPECT_NO_THROW(require_arithmetic(recorded, machine.setup()));
  const auto error_with = [&](auto&& change) {
    RecordedArithmetic other = recorded;
    change(other);
    return error_text<ConfigError>([&] { require_arithmetic(other, machine.setup()); });
  };
  EXPECT_PRED2(mentions, error_with([](auto& other) { other.isa = "avx1024"; }),
               "the instruction set was avx1024 and is ");
  EXPECT_PRED2(mentions, error_with([](auto& other) { other.matmul_library = "oneDNN 1.0"; }),
               "the library of matrix products was oneDNN 1.0 and is ");
  EXPECT_PRED2(mentions, error_with([](auto& other) { other.precision = "f32"; }),
               "the precision was f32 and is bf16 here");
  EXPECT_PRED2(mentions, error_with([](auto& other) { other.matmuls.clear(); }), "is not recorded");
}

TEST(RecordedArithmetic, IsKeptWhereARunGoesOnUnlessItMayChange) {
  const TemporaryFolder folder;
  Options options = one_layer();
  options.run = folder.path();
  RecordingMachine machine(options);
  RecordedArithmetic recorded = machine.record(machine.measure(nullptr));
  RunSetup setup = machine.setup();
  setup.options.resume = true;
  EXPECT_FALSE(arithmetic_to_keep(setup).has_value());  // a first run with --resume
  std::ofstream(folder.path("arithmetic.json")) << arithmetic_json(recorded).dump();
  EXPECT_TRUE(arithmetic_to_keep(setup).has_value());
  EXPECT_FALSE(arithmetic_to_keep(machine.setup()).has_value());  // without --resume

  recorded.isa = "avx1024";
  std::ofstream(folder.path("arithmetic.json")) << arithmetic_json(recorded).dump();
  const std::string error = error_text<ConfigError>([&] { arithmetic_to_keep(setup); });
  EXPECT_PRED2(mentions, error, folder.path("arithmetic.json") + ": the instruction set was");
  EXPECT_PRED2(mentions, error, "--allow-change arithmetic");
  setup.options.allow_change = {"arithmetic"};
  EXPECT_FALSE(arithmetic_to_keep(setup).has_value());
  setup.options.allow_change = {"lr"};
  std::ofstream(folder.path("arithmetic.json")) << "{";
  EXPECT_PRED2(mentions, error_text<FormatError>([&] { arithmetic_to_keep(setup); }),
               folder.path("arithmetic.json") + ": not valid JSON");
}

}  // namespace
}  // namespace strata::engine
