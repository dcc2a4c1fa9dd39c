// GradientStore: what happens to a gradient shard once it has left its slot.
//
//   landed ─(+ partial sum)─▶ not last: kept on its tier, f32
//                          └▶ last:     (rounded to bf16) ─▶ norm and finite check ─▶
//                                       deferred: kept on its tier until the update
//                                       in backward: updated at once, from memory
//
// The norm is over final gradients, each element that is not frozen once (padding is zero): f64
// sums of squares per 4,096 elements of a shard, each in a fixed tree (of its trained runs, where
// some are frozen), added in index order within a shard and in unit order over shards. So it does
// not depend on the order of arrival, on tiers or on the number of threads.
//
// Of a unit that is updated on the device the same is done there, and the sums come to the host.
//
// Thread contract: landing, landed and take_on_device on the gradient thread; begin_step and finish
// by the main thread while no gradient is on its way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/step/streaming_optimizer.h"
#include "io/storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "offload/gradient_sink.h"
#include "offload/state_store.h"

namespace strata::engine {

class GradientStore final : public offload::GradientConsumer {
 public:
  // Per unit, the elements of this rank's shard that are not frozen.
  using TrainedRanges = std::vector<std::vector<ElementRange>>;

  // `updates_in_backward` may be null: deferred.
  GradientStore(offload::StateStore& store, Device& device, WorkerSet& workers,
                TrainedRanges trained, Isa isa, StreamingOptimizer* updates_in_backward,
                Tracer* tracer = nullptr, optim::DeviceOptimizer* on_device = nullptr);
  ~GradientStore() override;

  float* landing(const offload::Contribution& contribution) override;
  void landed(const offload::Contribution& contribution) override;
  void take_on_device(const offload::Contribution& contribution, Stream& stream,
                      float* shard) override;

  void begin_step();
  // This rank's part of the norm; waits until every gradient is on its tier.
  struct Norm {
    double square_sum = 0;
    bool finite = true;
    void add(const Norm& other) {
      square_sum += other.square_sum;
      finite = finite && other.finite;
    }
  };
  Norm finish();

 private:
  struct Staging {
    PinnedBuffer values;   // f32
    PinnedBuffer rounded;  // bf16, when gradients are
    io::IoGroup writes;
  };
  bool resident(int unit) const;
  void accumulate(int unit, float* sum, const float* addend);
  void read_partial(int unit);
  void keep_partial(int unit, Staging& staging, const float* values);
  void finish_gradient(int unit, Staging& staging, float* values);
  void measure(int unit, const void* gradient);
  Norm measure_block(int unit, const void* gradient, std::int64_t first, std::int64_t last) const;
  void keep_final(int unit, Staging& staging, const void* gradient);
  void to_device(int unit, AlignedSpan source);
  void measure_on_device(int unit, Stream& stream, const void* gradient, Dtype dtype);
  void take_norm(int unit);
  void update_in_backward(int unit, Stream& stream, float* shard);
  void expect_finite(int unit) const;
  void count(offload::Link link, std::int64_t bytes);
  std::int64_t elements(int unit) const { return store_.unit(unit).shard_elements; }

  offload::StateStore& store_;
  const offload::Plan& plan_;
  WorkerSet& workers_;
  TrainedRanges trained_;
  Isa isa_;
  StreamingOptimizer* updates_in_backward_;
  TraceTrack row_;  // of the gradient thread
  std::array<Staging, offload::kGradientStagingSlots> staging_;
  int current_ = 0;
  PinnedBuffer partial_;            // f32, read back from the tier
  std::unique_ptr<Stream> copies_;  // for gradients on the device; ends before what it touches
  offload::VerifiedReads partial_reads_;
  optim::DeviceOptimizer* on_device_;
  DeviceBuffer sums_;  // f64, of the blocks of the shard at hand
  PinnedBuffer host_sums_;
  std::vector<Norm> block_norms_;  // of the shard at hand
  std::vector<Norm> unit_norms_;
};

}  // namespace strata::engine
