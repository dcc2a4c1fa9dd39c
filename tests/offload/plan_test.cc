#include "offload/plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "offload/state_store.h"
#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::kUnits;
using testing::placed;
using testing::plan_of;
using testing::small_input;

std::int64_t shard_elements(const Plan& plan) {
  std::int64_t sum = 0;
  for (const UnitPlan& unit : plan.units) sum += unit.shard_elements;
  return sum;
}

std::int64_t bytes_tagged(const Plan& plan, const std::string& tag) {
  std::int64_t bytes = 0;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.tag == tag) bytes += buffer.bytes;
  }
  return bytes;
}

TEST(Plan, ShardsArePaddedPartsOfEveryUnit) {
  for (const int ranks : {1, 2, 3, 4}) {
    PlanInput input = placed(Tier::nvme, Tier::device);
    input.world_size = ranks;
    const Plan plan = plan_of(input);
    for (std::size_t u = 0; u < kUnits; ++u) {
      const UnitPlan& unit = plan.units[u];
      EXPECT_EQ(unit.shard_elements % 4096, 0);
      EXPECT_GE(unit.shard_elements * ranks, input.units[u].elements);
      EXPECT_LT((unit.shard_elements - 4096) * ranks, input.units[u].elements) << "least padding";
    }
  }
}

TEST(Plan, EverythingIsWhereItWasAskedFor) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    for (const Tier activations : {Tier::device, Tier::host, Tier::nvme}) {
      const Plan plan = plan_of(placed(tier, activations));
      EXPECT_EQ(plan.activations, activations);
      for (const UnitPlan& unit : plan.units) {
        for (const Tier each : unit.tiers) EXPECT_EQ(each, tier);
      }
    }
  }
}

std::int64_t updated_on_device(const Plan& plan) {
  return std::ranges::count_if(plan.units, &UnitPlan::updated_on_device);
}

TEST(Plan, ADeviceThatUpdatesHasAllStateWhereItFitsAndNothingCarriesIt) {
  for (const UpdateTime update : {UpdateTime::deferred, UpdateTime::in_backward}) {
    PlanInput input = small_input();
    input.update = update;
    input.device_updates = true;
    input.units[2].frozen = true;
    const Plan plan = plan_of(input);
    EXPECT_EQ(updated_on_device(plan), kUnits - 1);
    EXPECT_FALSE(plan.units[2].updated_on_device);
    EXPECT_FALSE(plan.stages_state());
    for (const char* staging : {"weight staging", "optimizer staging", "gradient staging"}) {
      EXPECT_EQ(bytes_tagged(plan, staging), 0) << staging;
    }
    EXPECT_EQ(plan.total_bytes(Tier::host),
              loading_staging_bytes(plan) +
                  round_up(norm_bytes(plan.unit_elements_max), kPageBytes) + kPageBytes);
    Traffic expected;
    expected.add(Link::from_device, MovedKind::batch, kDomainBytes);
    for (const UnitPlan& unit : plan.units) {
      const std::int64_t blocks = unit.frozen ? 0 : unit.shard_elements / kNormBlockElements;
      expected.add(Link::from_device, MovedKind::gradients, blocks * 8);
    }
    EXPECT_EQ(plan.step_traffic(), expected);
    for (const PhaseTraffic& phase : plan.traffic) EXPECT_EQ(phase.optimizer_bytes, 0);
  }
}

bool lies_whole_in(Tier tier, const UnitPlan& unit) {
  return std::ranges::count(unit.tiers, tier) == kStateKinds;
}

// For a device that updates and is a page short of all state; `placed` is on it in any case.
PlanInput nearly_all_on_device(StateKind placed) {
  PlanInput input = small_input();
  input.device_updates = true;
  input.device_memory_bytes = plan_of(input).total_bytes(Tier::device) - kPageBytes;
  input.placement.states[static_cast<std::size_t>(placed)] = Tier::device;
  return input;
}

TEST(Plan, AUnitIsUpdatedOnTheDeviceThatHoldsAllOfItsState) {
  PlanInput input = nearly_all_on_device(StateKind::weights);
  const Plan plan = plan_of(input);
  EXPECT_TRUE(plan.stages_state());
  for (const UnitPlan& unit : plan.units) {
    EXPECT_EQ(unit.updated_on_device, lies_whole_in(Tier::device, unit)) << unit.name;
  }
  EXPECT_GT(updated_on_device(plan), 0);
  EXPECT_LT(updated_on_device(plan), kUnits);

  input.placement.states[static_cast<std::size_t>(StateKind::moment2)] = Tier::host;
  EXPECT_EQ(updated_on_device(plan_of(input)), 0);
}

std::int64_t state_bytes_of(const Plan& plan, const UnitPlan& unit) {
  std::int64_t bytes = plan.shard_bytes(unit, StateKind::gradients);
  for (const StateKind kind : kLastingKinds) bytes += plan.shard_bytes(unit, kind);
  return bytes;
}

// A page less than all is a unit less. Of the units that the device lacks, none would fit, all are
// in host memory, and nothing is staged.
TEST(Plan, ADeviceThatUpdatesHasTheWholeUnitsThatFit) {
  PlanInput input = small_input();
  input.device_updates = true;
  input.units[1].frozen = true;
  const auto whole_units = [](const Plan& plan) {
    return std::ranges::count_if(plan.units,
                                 [](const UnitPlan& u) { return lies_whole_in(Tier::device, u); });
  };
  input.device_memory_bytes = plan_of(input).total_bytes(Tier::device) - kPageBytes;
  EXPECT_EQ(whole_units(plan_of(input)), kUnits - 1);
  int plans = 0;
  for (; plan_of(input).homes == Homes::units; input.device_memory_bytes -= kPageBytes) {
    const Plan plan = plan_of(input);
    EXPECT_GT(whole_units(plan), 0);
    EXPECT_FALSE(plan.stages_state());
    EXPECT_GT(loading_staging_bytes(plan), 0);
    const std::int64_t room = plan.device_memory_bytes - plan.total_bytes(Tier::device);
    EXPECT_GE(room, 0);
    for (const UnitPlan& unit : plan.units) {
      if (lies_whole_in(Tier::device, unit)) continue;
      EXPECT_TRUE(lies_whole_in(Tier::host, unit)) << unit.name;
      EXPECT_GT(state_bytes_of(plan, unit), room) << unit.name;
    }
    ++plans;
  }
  EXPECT_GT(plans, kUnits);
  EXPECT_EQ(plan_of(input).homes, Homes::host);
}

// A tied table has two gradients a pass, which stay where they are; a frozen unit moves its weights
// alone; of equal ones the first comes first.
TEST(Plan, TheUnitsThatSpareAStepMostComeFirst) {
  PlanInput input = small_input();
  input.device_updates = true;
  input.units[1].frozen = true;
  const Plan all = plan_of(input);
  const auto on_device = [&](std::int64_t missing) {
    input.device_memory_bytes = all.total_bytes(Tier::device) - missing;
    std::vector<std::string> names;
    for (const UnitPlan& unit : plan_of(input).units) {
      if (lies_whole_in(Tier::device, unit)) names.push_back(unit.name);
    }
    return names;
  };
  const auto bytes = [&](std::size_t unit) { return state_bytes_of(all, all.units[unit]); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(on_device(0), (Names{"table", "a", "b", "c", "n"}));
  EXPECT_EQ(on_device(bytes(1)), (Names{"table", "b", "c", "n"}));
  EXPECT_EQ(on_device(bytes(1) + bytes(4)), (Names{"table", "b", "c"}));
  EXPECT_EQ(on_device(bytes(1) + bytes(4) + bytes(3)), (Names{"table", "b"}));
}

// Beside what the user has placed there, which the device holds in any case.
TEST(Plan, WholeUnitsLeaveRoomForWhatIsPlaced) {
  const PlanInput input = nearly_all_on_device(StateKind::moment2);
  const Plan plan = plan_of(input);
  for (const UnitPlan& unit : plan.units) EXPECT_EQ(unit.tier(StateKind::moment2), Tier::device);
  EXPECT_GT(updated_on_device(plan), 0);
  EXPECT_LT(updated_on_device(plan), kUnits);
}

// Four passes read every weight nine times as often as an update its moments: with hardly any host
// memory the device holds weights and gradients, of all units. Once these have room in host memory,
// it holds whole units, for the same bytes of the drive.
TEST(Plan, WholeUnitsMoveNoMoreOnTheDrive) {
  const auto nvme = [](const Plan& plan) {
    return plan.nvme_read_bytes() + plan.nvme_written_bytes();
  };
  PlanInput input = small_input();
  input.passes = 4;
  for (UnitSize& unit : input.units) unit.elements *= 20;
  input.device_memory_bytes = 10 * kMiB;
  for (const bool has_room : {false, true}) {
    input.host_memory_bytes = (has_room ? 13 : 9) * kMiB;
    input.device_updates = false;
    const Plan by_kind = plan_of(input);
    input.device_updates = true;
    const Plan plan = plan_of(input);
    EXPECT_GT(plan.total_bytes(Tier::nvme), 0);
    EXPECT_LE(nvme(plan), nvme(by_kind) + plan.unit_elements_max * 8);
    EXPECT_EQ(plan.units[1].updated_on_device, has_room);
  }
}

TEST(Plan, StateThatFitsInHostMemoryNeedsNoStaging) {
  const Plan plan = plan_of(small_input());
  EXPECT_EQ(plan.total_bytes(Tier::nvme), 0);
  EXPECT_EQ(plan.weight_staging_slots, 0);
  EXPECT_EQ(bytes_tagged(plan, "optimizer staging"), 0);
}

TEST(Plan, KeepsWithinAnyBudgetsThatItAccepts) {
  int refused = 0;
  int spilled = 0;
  for (std::int64_t device = 300 * kKiB; device <= 2 * kMiB; device += 130 * kKiB) {
    for (std::int64_t host = 100 * kKiB; host <= 3 * kMiB; host += 170 * kKiB) {
      PlanInput input = small_input();
      input.device_memory_bytes = device;
      input.host_memory_bytes = host;
      const PlanResult result = make_plan(input);
      if (!result.fits) {
        ++refused;
        EXPECT_GT(result.shortfall.needed_bytes, result.shortfall.budget_bytes);
        continue;
      }
      EXPECT_LE(result.plan.total_bytes(Tier::device), device);
      EXPECT_LE(result.plan.total_bytes(Tier::host), host);
      spilled += result.plan.total_bytes(Tier::nvme) > 0;
      std::int64_t state = 0;
      for (const char* const kind : {"weights", "remainder", "moment1", "moment2", "gradients"}) {
        state += bytes_tagged(result.plan, kind);
      }
      EXPECT_EQ(state, 16 * shard_elements(result.plan)) << "nothing is lost";
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(spilled, 0);
}

TEST(Plan, AShortfallSaysWhatIsEnough) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    PlanInput input = placed(Tier::nvme, Tier::nvme);
    std::int64_t& budget =
        tier == Tier::device ? input.device_memory_bytes : input.host_memory_bytes;
    budget = 10 * kKiB;
    const PlanResult refusal = make_plan(input);
    ASSERT_FALSE(refusal.fits);
    EXPECT_EQ(refusal.shortfall.tier, tier);
    EXPECT_EQ(refusal.shortfall.budget_bytes, 10 * kKiB);
    budget = refusal.shortfall.needed_bytes;
    EXPECT_TRUE(make_plan(input).fits);
    --budget;
    EXPECT_FALSE(make_plan(input).fits);
  }
}

// Bytes per parameter and step as the design counts them: all state on NVMe, one pass. In backward,
// the weights come with the rest of the state for the update, which is 2 more than the design's 26.
// The last unit of the forward is still there when backward begins: it is read once.
TEST(Plan, NvmeBytesPerParameterAreTheDesigns) {
  for (const UpdateTime update : {UpdateTime::deferred, UpdateTime::in_backward}) {
    for (const Dtype gradients : {Dtype::f32, Dtype::bf16}) {
      PlanInput input = placed(Tier::nvme, Tier::device);
      input.units[0].gradient_contributions = 1;  // not tied
      input.prefetch = 0;
      input.update = update;
      input.dtypes.gradients = gradients;
      const Plan plan = plan_of(input);
      const std::int64_t elements = shard_elements(plan);
      const std::int64_t turn = 2 * plan.units.back().shard_elements;
      const bool deferred = update == UpdateTime::deferred;
      const std::int64_t waiting = !deferred                 ? 0
                                   : gradients == Dtype::f32 ? 4
                                                             : 2;  // written, read
      EXPECT_EQ(plan.nvme_read_bytes(),
                (deferred ? 12 + 2 + waiting : 2 + 2 + 12) * elements - turn);
      EXPECT_EQ(plan.nvme_written_bytes(), (12 + waiting) * elements);
      const PhaseTraffic& forward = plan.phase(Phase::forward);
      EXPECT_EQ(forward.bytes(Link::nvme_read), (deferred ? 12 + waiting : 2) * elements);
      EXPECT_EQ(forward.bytes(Link::nvme_written), (deferred ? 12 : 0) * elements);
    }
  }
}

// Each further pass: a gradient read and written (f32 between passes) and the weights twice more.
TEST(Plan, AFurtherPassCostsTwelveBytesPerParameter) {
  PlanInput input = placed(Tier::nvme, Tier::device);
  input.prefetch = 0;
  const Plan one = plan_of(input);
  input.passes = 2;
  const Plan two = plan_of(input);
  const std::int64_t tied = 2 * 4 * one.units[0].shard_elements;  // contributes twice per pass
  EXPECT_EQ(two.nvme_read_bytes() + two.nvme_written_bytes() - one.nvme_read_bytes() -
                one.nvme_written_bytes(),
            12 * shard_elements(one) + tied - 2 * one.units.back().shard_elements);
}

TEST(Plan, GradientsUpdatedInBackwardAreKeptOnlyWhereTheyAccumulate) {
  PlanInput input = placed(Tier::host, Tier::device);
  input.update = UpdateTime::in_backward;
  const Plan plan = plan_of(input);
  EXPECT_EQ(plan.units[0].gradient_element_bytes, 4);  // tied
  for (std::size_t u = 1; u < kUnits; ++u) EXPECT_EQ(plan.units[u].gradient_element_bytes, 0);
  EXPECT_EQ(bytes_tagged(plan, "gradients"), 4 * plan.units[0].shard_elements);
}

TEST(Plan, TheOrderOfFillingIsThatOfBytesSaved) {
  PlanInput input = small_input();
  input.host_memory_bytes = plan_of(input).total_bytes(Tier::host) - kPageBytes;
  input.device_memory_bytes = 700 * kKiB;
  const Plan plan = plan_of(input);
  const auto rank = [](Tier tier) { return static_cast<int>(tier); };
  // Weights save the most per byte: no other kind of a unit is nearer than they are.
  for (const UnitPlan& unit : plan.units) {
    for (const StateKind kind : {StateKind::gradients, StateKind::moment1, StateKind::moment2}) {
      EXPECT_LE(rank(unit.tier(StateKind::weights)), rank(unit.tier(kind))) << unit.name;
    }
  }
}

TEST(Plan, ChunksAreWholeBlocksOrTheLongestShard) {
  PlanInput input = placed(Tier::nvme, Tier::device);
  for (const auto& [asked, chunk] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 8192}, {8192, 8192}, {8193, 16384}, {100000, 20480}}) {
    input.block_elements = 8192;
    input.chunk_elements = asked;
    EXPECT_EQ(plan_of(input).chunk_elements, chunk) << asked;
  }
}

// By formula, per element of bf16 training: 1 byte of code, 4 / 256 of scale padded to a page in a
// block of 4,096 elements: 2 bytes.
TEST(Plan, MomentsTakeTheBytesOfTheirFormat) {
  for (const auto& [moments, count, bytes] :
       std::vector<std::tuple<MomentFormat, int, std::int64_t>>{{MomentFormat::f32, 2, 8},
                                                                {MomentFormat::bf16, 2, 4},
                                                                {MomentFormat::int8, 2, 4},
                                                                {MomentFormat::f32, 1, 4},
                                                                {MomentFormat::bf16, 1, 2},
                                                                {MomentFormat::int8, 1, 2}}) {
    PlanInput input = placed(Tier::nvme, Tier::device);
    input.dtypes.moments = moments;
    input.dtypes.moment_count = count;
    const Plan plan = plan_of(input);
    EXPECT_EQ(bytes_tagged(plan, "moment1") + bytes_tagged(plan, "moment2"),
              bytes * shard_elements(plan));
    // Beside them the remainder (2) and a gradient (4).
    EXPECT_EQ(optimizer_buffer_bytes(plan), (bytes + 6) * plan.chunk_elements);
    // Deferred: w, rem, moments and gradient read in forward, all but the gradient written.
    const PhaseTraffic& forward = plan.phase(Phase::forward);
    EXPECT_EQ(forward.bytes(Link::nvme_written), (4 + bytes) * shard_elements(plan));
    EXPECT_EQ(forward.optimizer_bytes, (2 * (4 + bytes) + 4) * shard_elements(plan));
  }
}

TEST(Plan, AFrozenUnitHasItsMasterAndNothingElse) {
  for (const UpdateTime update : {UpdateTime::deferred, UpdateTime::in_backward}) {
    PlanInput input = placed(Tier::nvme, Tier::device);
    input.update = update;
    const Plan all = plan_of(input);
    input.units[0].frozen = true;  // the tied table
    const Plan plan = plan_of(input);
    EXPECT_TRUE(plan.units[0].frozen);
    for (int k = 0; k < kStateKinds; ++k) {
      const auto kind = static_cast<StateKind>(k);
      const bool of_master = kind == StateKind::weights || kind == StateKind::remainder;
      EXPECT_EQ(plan.shard_bytes(plan.units[0], kind) > 0, of_master) << name_of(kind);
      EXPECT_EQ(plan.shard_bytes(plan.units[1], kind), all.shard_bytes(all.units[1], kind));
    }
    // Written no more: its state (12), the sum after the head (4) and, deferred, the final
    // gradient (4).
    const std::int64_t deferred = update == UpdateTime::deferred ? 4 : 0;
    EXPECT_EQ(all.nvme_written_bytes() - plan.nvme_written_bytes(),
              (12 + 4 + deferred) * plan.units[0].shard_elements);
  }
}

TEST(Plan, ChecksumsAreHeldWhereSomethingMayLieOnNvme) {
  const Plan resident = plan_of(small_input());
  EXPECT_EQ(bytes_tagged(resident, kChecksumsTag), 0);
  const Plan activations = plan_of(placed(Tier::host, Tier::nvme));
  const Plan everything = plan_of(placed(Tier::nvme, Tier::nvme));
  for (const Plan* plan : {&activations, &everything}) {
    EXPECT_EQ(bytes_tagged(*plan, kChecksumsTag), round_up(plan->checksum_bytes(), kPageBytes));
  }
}

}  // namespace
}  // namespace strata::offload
