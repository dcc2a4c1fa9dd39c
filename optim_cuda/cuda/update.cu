#include "optim_cuda/cuda/update.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/launch.h"
#include "optim_cuda/cuda/int8_moments.h"
#include "optim_cuda/cuda/state_pieces.h"

namespace strata::optim::cuda {
namespace {

constexpr int kThreads = 256;

// The update rules: each writes the new moments, the last of which must stay finite, and returns
// what the master loses.
struct Adam {
  static constexpr int kMoments = 2;
  __device__ static float change(const UpdateConstants& c, const SegmentConstants& s, float w,
                                 float gradient, float (&moments)[2]) {
    auto& [m, v] = moments;
    const float g = fma_rn(s.coupled_decay, w, mul_rn(c.gradient_scale, gradient));
    m = fma_rn(c.beta1, m, mul_rn(c.one_minus_beta1, g));
    v = fma_rn(c.beta2, v, mul_rn(mul_rn(c.one_minus_beta2, g), g));
    const float denominator = fma_rn(sqrt_rn(v), c.moment2_root_scale, c.epsilon);
    return fma_rn(s.decoupled_decay, w, mul_rn(s.step_size, div_rn(m, denominator)));
  }
};

struct Lion {
  static constexpr int kMoments = 1;
  __device__ static float change(const UpdateConstants& c, const SegmentConstants& s, float w,
                                 float gradient, float (&moments)[1]) {
    auto& [m] = moments;
    const float g = mul_rn(c.gradient_scale, gradient);
    const float direction = fma_rn(c.beta1, m, mul_rn(c.one_minus_beta1, g));
    m = fma_rn(c.beta2, m, mul_rn(c.one_minus_beta2, g));
    const float up = direction < 0 ? -s.step_size : 0.0f;
    return fma_rn(s.decoupled_decay, w, direction > 0 ? s.step_size : up);
  }
};

// The segment of `element`, searched for from `segment` on.
__device__ int segment_of(const UpdateCall& call, std::int64_t element, int segment) {
  while (call.segments[segment].last <= element) ++segment;
  return segment;
}

__device__ bool any_updated(const UpdateCall& call, std::int64_t first, int segment) {
  while (call.segments[segment].frozen && call.segments[segment].last < first + kOwn) ++segment;
  return !call.segments[segment].frozen;
}

// Floor: the bytes of the state, read and but for the gradient written, over the bandwidth: 28 per
// element with split masters, moments and gradients in f32.
template <typename Rule, typename Masters, typename Moments, typename Gradient>
__global__ void __launch_bounds__(kThreads)
    update_state(UpdateCall call, typename Moments::Maps maps) {
  const typename Moments::Shared shared(maps);
  const std::int64_t first = (block_x() * kThreads + thread_index()) * kOwn;
  if (first >= call.state.elements) return;
  int segment = segment_of(call, first, 0);
  if (!Moments::takes_part(any_updated(call, first, segment))) return;

  Masters masters(call.state, first);
  Moments moments(call, shared, first);
  const Own<Gradient> gradient =
      load_own(static_cast<const Gradient*>(call.state.gradient) + first);
  std::uint32_t master_bits = 0;
  std::uint32_t moment_bits = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    segment = segment_of(call, first + i, segment);
    const SegmentConstants& constants = call.segments[segment];
    if (constants.frozen) continue;
    float m[Rule::kMoments];
    moments.get(i, m);
    const float w = masters.get(i);
    const float change = Rule::change(call.constants, constants, w, widen(gradient.at[i]), m);
    const float updated = sub_rn(w, change);
    masters.set(i, updated);
    moments.set(i, m);
    master_bits = std::max(master_bits, magnitude_bits(updated));
    moment_bits = std::max(moment_bits, magnitude_bits(m[Rule::kMoments - 1]));
  }
  masters.store();
  moments.store(maps);
  if (master_bits >= Masters::kBoundBits || moment_bits >= kInfinityBits) {
    if (load(call.left_domain) == 0) {
      store(call.left_domain, static_cast<std::int32_t>(call.state.unit) + 1);
    }
  }
}

template <typename Rule, typename Masters, typename Moments, typename Gradient>
void run(cudaStream_t stream, const UpdateCall& call) {
  static_assert(sizeof(UpdateCall) + sizeof(typename Moments::Maps) <= 4096);  // of parameters
  const LaunchSize size{.blocks_x = ceil_div(call.state.elements, kThreads * kOwn),
                        .threads = kThreads,
                        .shared_bytes = Moments::kSharedBytes};
  check(launch(stream, size, update_state<Rule, Masters, Moments, Gradient>, call,
               typename Moments::Maps{}),
        "update");
}

template <typename Rule, typename Masters, typename Moments>
void with_gradient(cudaStream_t stream, const UpdateCall& call) {
  call.state.gradient_dtype == Dtype::f32 ? run<Rule, Masters, Moments, float>(stream, call)
                                          : run<Rule, Masters, Moments, bf16>(stream, call);
}

template <typename Rule, typename Masters>
void with_moments(cudaStream_t stream, const UpdateCall& call) {
  switch (call.state.moments) {
    case MomentFormat::f32:
      return with_gradient<Rule, Masters, F32Moments<Rule::kMoments>>(stream, call);
    case MomentFormat::bf16:
      return with_gradient<Rule, Masters, Bf16Moments<Rule::kMoments>>(stream, call);
    case MomentFormat::int8:
      return with_gradient<Rule, Masters, Int8Moments<Rule::kMoments>>(stream, call);
  }
}

template <typename Rule>
void with_masters(cudaStream_t stream, const UpdateCall& call) {
  call.state.remainder != nullptr ? with_moments<Rule, SplitMasters>(stream, call)
                                  : with_moments<Rule, F32Masters>(stream, call);
}

}  // namespace

void update(cudaStream_t stream, const UpdateCall& call) {
  call.method == Method::lion ? with_masters<Lion>(stream, call) : with_masters<Adam>(stream, call);
}

}  // namespace strata::optim::cuda
