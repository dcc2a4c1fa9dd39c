// StreamingOptimizer: the optimizer over state that streams by, from any tier.
//
// Units are updated in an order known ahead, chunk by chunk through a ring of buffers:
//
//   read chunks i+1 …   ∥   update chunk i on the workers   ∥   write chunks …, i-1
//
// State in host memory is updated where it lies and moves nothing. Where all of a unit's state is
// on a GPU, its kernels update it there (optim_cuda/).
//
// Deferred: begin_step() makes every unit pending; the WeightStreamer calls apply() just before a
// unit is next used, with the working weights it has just read.
// In backward: begin_step() likewise, and GradientStore calls apply_final*() as soon as a unit's
// gradient is final; weights travel with the rest of the state.
//
//   unit:  current ──begin_step──▶ pending ──apply / apply_final──▶ current
//
// What is read, also ahead of the update, is the unit's live slot, and what is written its target
// (offload/live_slots.h). apply_final*() ends the update; after apply() the WeightStreamer does,
// when it has written the weights.
//
// A frozen unit is never pending; frozen tensors of other units stream by unchanged.
//
// Thread contract: begin_step and finish are called by the main thread while no unit is being
// applied; apply by the fetch thread, apply_final by the gradient thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/plan/parameter_groups.h"
#include "io/storage.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "offload/state_store.h"
#include "offload/weight_streamer.h"
#include "optim_cpu/optimizer.h"
#include "optim_cuda/device_optimizer.h"

namespace strata::engine {

struct OptimizerParts {
  offload::StateStore& store;
  Device& device;
  WorkerSet& workers;
  Tracer* tracer;
  int rank;
  optim::DeviceOptimizer* on_device = nullptr;  // for units that are updated there
};

class StreamingOptimizer final : public offload::PendingUpdates {
 public:
  // `order`: all units, in the order their updates will be applied; frozen ones are left out.
  // `groups`: per unit.
  StreamingOptimizer(const OptimizerParts& parts, std::vector<int> order,
                     std::vector<std::vector<ParameterSegment>> groups, double weight_decay,
                     Isa isa);
  ~StreamingOptimizer() override;

  // Every gradient is final and on its tier (deferred) or on its way (in backward).
  void begin_step(const optim::StepSettings& settings, double learning_rate);
  bool pending(int unit) const override;
  bool any_pending() const { return applied_ < order_.size(); }

  void apply(int unit, AlignedSpan weights) override;
  // gradient: the shard's, f32 or bf16 as the plan says, in host memory.
  void apply_final(int unit, const void* gradient);

  // The same on the device, where the gradient, in f32, is in device memory: enqueued. The last of
  // a step waits for all.
  void apply_on_device(int unit, Stream& stream) override;
  void apply_final_on_device(int unit, Stream& stream, const float* gradient);

  // Waits until everything updated is on its tier.
  void finish();

  // What was moved for updates since begin_step(), the write-back of weights included. Read it
  // while no unit is being applied.
  offload::Traffic update_traffic() const;

  // Pinned memory while no update is under way, for filling states at start; empty when everything
  // lives in host memory.
  AlignedSpan scratch() const { return memory_.bytes() > 0 ? memory_.span() : AlignedSpan(); }

 private:
  struct Chunk {
    int unit;
    std::int64_t first;  // elements of the shard
    std::int64_t elements;
  };
  struct Buffer {
    AlignedSpan memory;
    offload::VerifiedReads reads;
    io::IoGroup writes;
    std::unique_ptr<Event> copied_in;
    std::unique_ptr<Event> copied_out;
  };
  // Where one chunk of each kind is while it is updated.
  using Pointers = std::array<std::byte*, offload::kStateKinds>;

  void make_ring(Device& device);
  void prepare_device_updates(Device& device);
  void expect_next(int unit) const;
  void end_unit(int unit);
  void update_on_device(int unit, Stream& stream, const float* gradient);
  void launch_update(const Chunk& chunk, Stream& stream, const float* gradient);
  void check_device_updates();
  void update_unit(int unit, std::byte* weights, const std::byte* gradient);
  void issue_ahead();
  void issue(std::size_t chunk);
  void update(std::size_t chunk, std::byte* weights, const std::byte* gradient);
  void write_back(std::size_t chunk);
  void run_update(const Chunk& chunk, const Pointers& at);
  [[noreturn]] void refuse_update_of(int unit) const;
  optim::State state_of(const Chunk& chunk, const Pointers& at, std::int64_t first,
                        std::int64_t last) const;
  void cut_segments(int unit, std::int64_t first, std::int64_t last,
                    std::vector<optim::Segment>& segments) const;
  optim::Moment moment(const Chunk& chunk, const Pointers& at, offload::StateKind kind,
                       std::int64_t element) const;
  Pointers locate(std::size_t chunk) const;
  AlignedSpan part(std::size_t chunk, offload::StateKind kind) const;
  // Of a shard's or a chunk's first elements: the offset of what comes after them.
  std::int64_t bytes(offload::StateKind kind, std::int64_t elements) const {
    return plan_.bytes_of_elements(kind, elements);
  }

  offload::StateStore& store_;
  const offload::Plan& plan_;
  WorkerSet& workers_;
  TraceTrack row_;
  int rank_;
  std::vector<int> order_;
  std::vector<std::vector<ParameterSegment>> groups_;
  double weight_decay_;
  Isa isa_;
  std::int64_t tile_elements_;
  std::vector<offload::StateKind> streamed_;  // the kinds a chunk carries through its buffer
  PinnedBuffer memory_;                       // the ring's, if there is one
  std::array<Buffer, offload::kOptimizerBuffers> ring_;
  optim::DeviceOptimizer* on_device_;
  DeviceBuffer left_domain_;  // int32: 0, or the first unit that did + 1
  PinnedBuffer host_left_domain_;
  std::unique_ptr<Event> updated_on_device_;
  bool unchecked_ = false;          // since check_device_updates()
  std::unique_ptr<Stream> copies_;  // for state that lives on the device; ends before the ring

  std::vector<Chunk> chunks_;             // of all units, in order
  std::vector<std::size_t> first_chunk_;  // per position in order_; one more at the end
  std::vector<std::uint8_t> pending_;     // per unit
  std::vector<std::vector<optim::Segment>> segments_;  // per worker: those of the tile at hand
  optim::StepSettings settings_;
  double learning_rate_ = 0;
  offload::Traffic counted_before_;  // when the step's update began
  std::size_t issued_ = 0;           // chunks whose reads were started
  std::size_t updated_ = 0;          // chunks
  std::size_t applied_ = 0;          // units
};

}  // namespace strata::engine
