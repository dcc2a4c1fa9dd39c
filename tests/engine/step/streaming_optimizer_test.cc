// Given the same gradients, the update of a unit has the same bits however many ranks share it and
// wherever its state lies, in one slot or two: those of one call of optim_cpu on the whole unit.
#include "engine/step/streaming_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/offload/small_machine.h"

namespace strata::engine {
namespace {

using offload::StateKind;
using offload::Tier;
using offload::testing::placed;
using offload::testing::SmallMachine;

constexpr int kUnit = 0;  // of 20,000 elements
constexpr int kSteps = 3;
constexpr double kLearningRate = 1e-2;
constexpr double kWeightDecay = 0.1;

struct Arithmetic {
  std::string name;
  optim::Method method = optim::Method::adamw;
  MomentFormat moments = MomentFormat::f32;
  Dtype weights = Dtype::bf16;
};

void PrintTo(const Arithmetic& arithmetic, std::ostream* out) { *out << arithmetic.name; }

// Boundaries inside a tile, inside 256 elements that share a scale, and inside the last shards.
const std::vector<ParameterSegment>& segments() {
  static const std::vector<ParameterSegment> kSegments = {
      {1000, 1, true},
      {5120, 0, false},
      {9664, 0.5, false},
      {std::numeric_limits<std::int64_t>::max(), 2, true}};
  return kSegments;
}

// Of `elements`, padding included, which is zero.
std::vector<float> random_values(std::int64_t elements, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<std::size_t>(elements), 0.0f);
  for (std::int64_t i = 0; i < 20000; ++i) values[static_cast<std::size_t>(i)] = normal(random);
  return values;
}

optim::StepSettings settings_of(const Arithmetic& arithmetic, int step) {
  optim::StepSettings settings;
  settings.method = arithmetic.method;
  settings.step = step;
  settings.seed = 99;
  settings.gradient_scale = 0.5f;
  return settings;
}

// One rank of several, with the state of kUnit on `tier`.
class Rank {
 public:
  Rank(const Arithmetic& arithmetic, int rank, int ranks, Tier tier, offload::Durability durability)
      : machine_(input(arithmetic, ranks, tier, durability), {}),
        rank_(rank),
        shard_(machine_.plan.units[kUnit].shard_elements),
        memory_(machine_.device.allocate_pinned("test", 4 * shard_)),
        optimizer_({machine_.store, machine_.device, machine_.workers, nullptr, rank}, {kUnit},
                   std::vector(machine_.plan.units.size(), segments()), kWeightDecay, Isa::scalar) {
    const std::vector<float> initial = slice(random_values(ranks * shard_, 1));
    std::vector<bf16> upper;
    std::vector<std::int16_t> lower;
    for (const float x : initial) {
      upper.push_back(split_master(x).weight);
      lower.push_back(split_master(x).remainder);
    }
    if (arithmetic.weights == Dtype::f32) {
      put(StateKind::weights, initial.data());
    } else {
      put(StateKind::weights, upper.data());
      put(StateKind::remainder, lower.data());
    }
    const std::vector<std::byte> zeros(static_cast<std::size_t>(4 * shard_));
    put(StateKind::moment1, zeros.data());
    put(StateKind::moment2, zeros.data());
  }

  // This rank's f32 masters after kSteps.
  std::vector<float> train(const Arithmetic& arithmetic) {
    for (int step = 1; step <= kSteps; ++step) {
      const auto all = random_values(machine_.plan.world_size * shard_, 10u + step);
      optimizer_.begin_step(settings_of(arithmetic, step), kLearningRate);
      // As a commit of the step before does, once it has read ahead; after one of three steps none.
      if (step != 2) machine_.store.protect_live_slots();
      optimizer_.apply_final(kUnit, slice(all).data());
      optimizer_.finish();
    }
    std::vector<float> masters(static_cast<std::size_t>(shard_));
    if (arithmetic.weights == Dtype::f32) {
      std::memcpy(masters.data(), get(StateKind::weights), static_cast<std::size_t>(4 * shard_));
      return masters;
    }
    std::vector<bf16> upper(masters.size());
    std::memcpy(upper.data(), get(StateKind::weights), 2 * upper.size());
    const auto* const lower = reinterpret_cast<const std::int16_t*>(get(StateKind::remainder));
    for (std::size_t i = 0; i < masters.size(); ++i) masters[i] = join_master(upper[i], lower[i]);
    return masters;
  }

 private:
  static offload::PlanInput input(const Arithmetic& arithmetic, int ranks, Tier tier,
                                  offload::Durability durability) {
    offload::PlanInput input = placed(tier, Tier::device);
    input.durability = durability;
    input.world_size = ranks;
    input.update = offload::UpdateTime::in_backward;
    input.dtypes.weights = arithmetic.weights;
    input.dtypes.moments = arithmetic.moments;
    input.dtypes.moment_count = arithmetic.method == optim::Method::lion ? 1 : 2;
    return input;
  }
  std::vector<float> slice(const std::vector<float>& unit) const {
    const auto begin = unit.begin() + rank_ * shard_;
    return {begin, begin + shard_};
  }
  AlignedSpan shard_memory(StateKind kind) const {
    return memory_.span(0, machine_.plan.shard_bytes(machine_.plan.units[kUnit], kind));
  }
  void put(StateKind kind, const void* values) {
    const AlignedSpan memory = shard_memory(kind);
    if (memory.bytes() == 0) return;
    std::memcpy(memory.data(), values, static_cast<std::size_t>(memory.bytes()));
    if (machine_.store.tier(kUnit, kind) == Tier::host) {
      const AlignedSpan home = machine_.store.host(kUnit, kind);
      std::memcpy(home.data(), memory.data(), static_cast<std::size_t>(memory.bytes()));
      return;
    }
    io::IoGroup writes;
    writes.report_to(machine_.store.lasting_writes());
    machine_.store.write(kUnit, kind, 0, memory, writes);
    writes.wait();
  }
  const std::byte* get(StateKind kind) {
    if (machine_.store.tier(kUnit, kind) == Tier::host) {
      return machine_.store.host(kUnit, kind).data();
    }
    offload::VerifiedReads reads;
    machine_.store.read(kUnit, kind, 0, shard_memory(kind), reads);
    reads.wait();
    return memory_.data();
  }

  SmallMachine machine_;
  int rank_;
  std::int64_t shard_;
  PinnedBuffer memory_;
  StreamingOptimizer optimizer_;
};

// The whole unit in plain arrays.
std::vector<float> expected(const Arithmetic& arithmetic) {
  constexpr std::int64_t kElements = 20480;
  constexpr auto kSize = static_cast<std::size_t>(kElements);
  std::vector<float> masters = random_values(kElements, 1);
  std::vector<bf16> upper;
  std::vector<std::int16_t> lower;
  for (const float x : masters) {
    upper.push_back(split_master(x).weight);
    lower.push_back(split_master(x).remainder);
  }
  std::vector<float> moments[2] = {std::vector<float>(kSize), std::vector<float>(kSize)};
  std::vector<float> scales[2] = {std::vector<float>(kSize / 256), std::vector<float>(kSize / 256)};
  std::vector<optim::Segment> settings;
  for (const ParameterSegment& each : segments()) {
    settings.push_back({std::min(each.last, kElements),
                        static_cast<float>(kLearningRate * each.lr_scale),
                        each.decay ? static_cast<float>(kWeightDecay) : 0.0f, each.frozen()});
  }
  for (int step = 1; step <= kSteps; ++step) {
    const std::vector<float> gradient = random_values(kElements, 10u + step);
    optim::State state;
    state.weight = upper.data();
    if (arithmetic.weights == Dtype::f32) {
      state.weight = masters.data();
    } else {
      state.remainder = lower.data();
    }
    state.moments = arithmetic.moments;
    state.moment1 = {moments[0].data(), scales[0].data()};
    if (arithmetic.method != optim::Method::lion) {
      state.moment2 = {moments[1].data(), scales[1].data()};
    }
    state.gradient = gradient.data();
    state.elements = kElements;
    state.unit = kUnit;
    EXPECT_TRUE(optim::update(settings_of(arithmetic, step), settings, state, Isa::scalar));
  }
  if (arithmetic.weights == Dtype::bf16) {
    for (std::size_t i = 0; i < kSize; ++i) masters[i] = join_master(upper[i], lower[i]);
  }
  masters.resize(20000);
  return masters;
}

class StreamingOptimizerTest : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(StreamingOptimizerTest, RanksTiersAndSlotsChangeNoBit) {
  const std::vector<float> whole = expected(GetParam());
  const std::vector<float> initial = random_values(20000, 1);
  EXPECT_NE(whole, initial);
  EXPECT_TRUE(std::equal(whole.begin() + 1000, whole.begin() + 5120, initial.begin() + 1000))
      << "frozen";
  const auto expect_whole = [&](int ranks, Tier tier, offload::Durability durability) {
    std::vector<float> together;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> shard =
          Rank(GetParam(), rank, ranks, tier, durability).train(GetParam());
      together.insert(together.end(), shard.begin(), shard.end());
    }
    together.resize(whole.size());
    EXPECT_TRUE(together == whole)
        << ranks << " ranks, " << name_of(tier) << ", durability " << static_cast<int>(durability);
  };
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    for (const int ranks : {1, 2, 3}) expect_whole(ranks, tier, offload::Durability::none);
    expect_whole(1, tier, offload::Durability::clean_mark);
    for (const int ranks : {1, 2}) expect_whole(ranks, tier, offload::Durability::commits);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Arithmetics, StreamingOptimizerTest,
    ::testing::Values(Arithmetic{"adamw"}, Arithmetic{"adam", optim::Method::adam},
                      Arithmetic{"adamw_bf16", optim::Method::adamw, MomentFormat::bf16},
                      Arithmetic{"adamw_int8", optim::Method::adamw, MomentFormat::int8},
                      Arithmetic{"lion_bf16", optim::Method::lion, MomentFormat::bf16},
                      Arithmetic{"lion_int8", optim::Method::lion, MomentFormat::int8},
                      Arithmetic{"f32_masters_int8", optim::Method::adam, MomentFormat::int8,
                                 Dtype::f32}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine
