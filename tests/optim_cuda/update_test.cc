// The update on a GPU gives the bits of the CPU's, in every form of a state.
#include <gtest/gtest.h>

#include <limits>

#include "tests/optim_cpu/optim_testing.h"
#include "tests/optim_cuda/device_testing.h"

namespace strata::optim {
namespace {

StepSettings settings_of(const Form& form) {
  return {.method = form.method, .gradient_scale = 0.7f, .step = 3, .seed = 5};
}

class DeviceUpdate : public ::testing::Test {
 protected:
  // Of elements [0, elements), which are those of the unit from `first` on.
  void expect_the_cpus(const Form& form, const Arrays& start, std::span<const Segment> segments,
                       std::int64_t first) {
    const std::int64_t elements = segments.back().last;
    const auto placed = [&](Arrays& arrays) {
      State state = arrays.state(form, 0, elements);
      state.first_element = first;
      state.unit = 6;
      return state;
    };
    Arrays expected = start;
    const bool in_domain =
        update(settings_of(form), segments, placed(expected), supported_isas().back());
    Arrays actual = start;
    const std::int32_t left = update_on_device(gpu_, settings_of(form), segments, placed(actual));
    EXPECT_EQ(actual, expected) << form.text() << ", " << elements << " elements";
    EXPECT_EQ(left, in_domain ? 0 : 7) << form.text();
  }

  TestGpu gpu_;
};

// One segment over many blocks, and lengths around the threads of a block.
TEST_F(DeviceUpdate, GivesTheBitsOfTheCpu) {
  for_each_form([&](const Form& form) {
    for (const std::int64_t elements : {256, 2048, 2304, 6400}) {
      std::mt19937 random(static_cast<unsigned>(elements));
      const Segment all{elements, 1e-3f, 0.1f, false};
      expect_the_cpus(form, Arrays(elements, random), std::span(&all, 1), 4096);
    }
  });
}

// Segments that begin and end anywhere: within a thread's elements, a scale's, a block's; frozen
// ones that share a scale with others, and that fill some.
TEST_F(DeviceUpdate, OfSegmentsAnywhere) {
  const std::vector<Segment> segments = {
      {1, 1e-3f, 0.1f, false},    {3, 2e-3f, 0, false},     {250, 1e-3f, 0.1f, true},
      {255, 1e-2f, 0, false},     {258, 1e-3f, 0.3f, true}, {1793, 3e-3f, 0.1f, false},
      {2817, 0, 0, true},         {2823, 0, 0, true},       {2825, 1e-3f, 0, false},
      {4095, 1e-3f, 0.1f, false}, {4096, 1e-3f, 0, true}};
  for_each_form([&](const Form& form) {
    std::mt19937 random(3);
    expect_the_cpus(form, Arrays(segments.back().last, random), segments, 0);
  });
}

TEST_F(DeviceUpdate, OfMoreSegmentsThanOneLaunchTakes) {
  std::vector<Segment> segments;
  std::mt19937 random(7);
  for (std::int64_t last = 0; last < 8000;) {
    last += 1 + static_cast<std::int64_t>(random() % 60);
    segments.push_back({last, 1e-3f * static_cast<float>(random() % 5), 0.1f, random() % 4 == 0});
  }
  segments.push_back({8192, 1e-3f, 0, false});
  EXPECT_GT(segments.size(), 3u * UpdateCall::kSegmentsMax);
  for_each_form(
      [&](const Form& form) { expect_the_cpus(form, Arrays(8192, random), segments, 0); });
}

// An optimizer that only counts its launches.
class Launches final : public DeviceOptimizer {
 public:
  std::vector<std::int64_t> elements;

  void accumulate(Stream&, float*, const float*, std::int64_t) override {}
  void round_to_bf16(Stream&, bf16*, const float*, std::int64_t) override {}
  void round_to_bf16(Stream&, float*, std::int64_t) override {}
  void add_square_sums(Stream&, double*, const void*, Dtype, std::int64_t, std::int64_t) override {}

 private:
  void launch(Stream&, const UpdateCall& call) override { elements.push_back(call.state.elements); }
};

TEST_F(DeviceUpdate, OfManyBlocksAtOnce) {
  for_each_form([&](const Form& form) {
    std::mt19937 random(13);
    const std::int64_t elements = 40 * kBlocks.elements;
    Arrays arrays(elements, random);
    const Segment all{elements, 1e-3f, 0.1f, false};
    Launches launches;
    launches.update(gpu_.stream(), settings_of(form), std::span(&all, 1),
                    arrays.state(form, 0, elements), kBlocks, nullptr);
    EXPECT_EQ(launches.elements, std::vector{elements}) << form.text();
  });
}

// Where the key of stochastic rounding changes.
TEST_F(DeviceUpdate, AcrossElementsOfTwoKeys) {
  const Segment all{1024, 1e-3f, 0.1f, false};
  for_each_form([&](const Form& form) {
    std::mt19937 random(11);
    expect_the_cpus(form, Arrays(all.last, random), std::span(&all, 1), kKeyElements - 512);
  });
}

TEST_F(DeviceUpdate, OfSubnormalAndHugeNumbers) {
  const Arrays start = subnormal_and_huge();
  const Segment all{start.elements(), 1e-3f, 0.1f, false};
  for_each_form([&](const Form& form) { expect_the_cpus(form, start, std::span(&all, 1), 0); });
}

// Each way to leave it, by one element of many; frozen elements do not count.
TEST_F(DeviceUpdate, TellsOfTheFirstUnitThatLeavesTheDomain) {
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for_each_form([&](const Form& form) {
    std::mt19937 random(17);
    const Arrays start(1024, random);
    const auto left_by = [&](bool frozen, std::int32_t left_before, const auto& plant) {
      Arrays arrays = start;
      plant(arrays);
      State state = arrays.state(form, 0, 1024);
      state.unit = 2;
      const std::vector<Segment> segments = {
          {777, 1e-3f, 0, false}, {779, 1e-3f, 0, frozen}, {1024, 1e-3f, 0, false}};
      return update_on_device(gpu_, settings_of(form), segments, state, left_before);
    };
    const auto nothing = [](Arrays&) {};
    const auto gradient = [&](Arrays& arrays) {
      arrays.gradient[778] = kNan;
      arrays.gradient_bf16[778] = to_bf16_nearest_even(kNan);
    };
    const auto master = [](Arrays& arrays) {
      arrays.master[778] = std::numeric_limits<float>::infinity();
      arrays.weight[778] = {0x7F7F};
      arrays.remainder[778] = 0x7FFF;
    };
    EXPECT_EQ(left_by(false, 0, nothing), 0) << form.text();
    EXPECT_EQ(left_by(false, 0, gradient), 3) << form.text();
    EXPECT_EQ(left_by(true, 0, gradient), 0) << form.text();
    EXPECT_EQ(left_by(false, 2, gradient), 2) << form.text();
    if (form.masters == Masters::f32) {
      EXPECT_EQ(left_by(false, 0, master), 3) << form.text();
    }
  });
}

}  // namespace
}  // namespace strata::optim
