// PredictedOptimizer: the schedule of StreamingOptimizer (engine/step/streaming_optimizer.h): a
// ring of buffers through which chunks of the state are read ahead, updated and written back.
#pragma once

#include <array>
#include <vector>

#include "engine/cost/step_prediction_machine.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

class PredictedOptimizer {
 public:
  PredictedOptimizer(const RunSetup& setup, PredictedMachine& machine);

  void begin_step(Lane& lane);
  bool pending(int unit) const { return pending_[static_cast<std::size_t>(unit)] != 0; }
  // Updates the next unit, on a lane.
  void apply(int unit, Lane& lane);
  // The lane waits until everything is on its tier.
  void finish(Lane& lane);

 private:
  struct Chunk {
    double read_bytes = 0;  // NVMe
    double written_bytes = 0;
    double from_device_bytes = 0;
    double to_device_bytes = 0;
    double updated_bytes = 0;  // state read and written, gradients read
  };
  struct Buffer {
    Moment arrived = Fluid::kBeginning;
    Moment copied_in = Fluid::kBeginning;
    Moment written = Fluid::kBeginning;
    Moment copied_out = Fluid::kBeginning;
  };
  Chunk chunk_of(const offload::UnitPlan& unit, std::int64_t elements) const;
  void issue_ahead(Lane& lane);
  void issue(const Chunk& chunk, Buffer& buffer, Lane& lane);
  void update(const Chunk& chunk, Buffer& buffer, Lane& lane);
  Buffer& buffer_of(std::size_t chunk) { return ring_[chunk % ring_.size()]; }

  const offload::Plan& plan_;
  PredictedMachine& machine_;
  std::vector<offload::StateKind> streamed_;
  std::vector<Chunk> chunks_;           // of all units, in the order of updates
  std::vector<std::size_t> chunks_of_;  // per unit, how many
  std::vector<std::uint8_t> pending_;   // per unit
  std::array<Buffer, offload::kOptimizerBuffers> ring_;
  Lane copies_;
  std::size_t issued_ = 0;   // chunks
  std::size_t updated_ = 0;  // chunks
};

}  // namespace strata::engine
