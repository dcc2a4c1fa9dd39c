// WorkMeter: a stream of a cpu device whose ops are timed by kind of work.
//
// Thread contract: one thread; nothing else runs on the device.
#pragma once

#include <memory>
#include <string_view>

#include "engine/cost/compute_cost.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

class WorkMeter final : private OpObserver {
 public:
  explicit WorkMeter(CpuDevice& device)
      : device_(device), stream_(device.make_stream("measurement")) {
    device_.observe_ops(this);
  }
  ~WorkMeter() override {
    stream_.reset();
    device_.observe_ops(nullptr);
  }
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // The fastest of some runs of what enqueue(stream) enqueues, but for the first, which warms up:
  // of one more, or of several while they take no time.
  template <typename Enqueue>
  WorkSeconds fastest(const Enqueue& enqueue) {
    run(enqueue);
    WorkSeconds best = run(enqueue);
    double spent_s = best.total();
    for (int repeat = 1; repeat < kRepeatsMax && spent_s < kEnoughSeconds; ++repeat) {
      const WorkSeconds again = run(enqueue);
      spent_s += again.total();
      if (again.total() < best.total()) best = again;
    }
    return best;
  }

 private:
  static constexpr double kEnoughSeconds = 0.01;
  static constexpr int kRepeatsMax = 5;

  static Work work_of(std::string_view op) {
    if (op.starts_with("linear")) return Work::matmul;
    return op.starts_with("attention") ? Work::attention : Work::elementwise;
  }
  void op_ran(const char* name, double seconds) override { seconds_[work_of(name)] += seconds; }

  template <typename Enqueue>
  WorkSeconds run(const Enqueue& enqueue) {
    seconds_ = {};
    enqueue(*stream_);
    stream_->synchronize();
    return seconds_;
  }

  CpuDevice& device_;
  std::unique_ptr<Stream> stream_;
  WorkSeconds seconds_;  // of the run at hand; written by the stream's thread
};

}  // namespace strata::engine
