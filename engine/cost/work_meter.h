// WorkMeter: a stream of a device whose ops are timed by kind of work.
//
// Thread contract: one thread; nothing else runs on the device.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/cost/compute_cost.h"
#include "engine/cost/repeats.h"
#include "kernels/base/error.h"
#include "kernels/device/device.h"

namespace strata::engine {

// Of an op, by its name.
inline Work work_of(std::string_view op) {
  if (op.starts_with("linear")) return Work::matmul;
  return op.starts_with("attention") ? Work::attention : Work::elementwise;
}

class WorkMeter final : private OpObserver {
 public:
  // `op_cost` may be empty: see measure_compute().
  explicit WorkMeter(Device& device, const OpCost& op_cost = {})
      : device_(device), op_cost_(op_cost) {
    device_.observe_ops(this);
    stream_ = device_.make_stream("measurement");
  }
  ~WorkMeter() override {
    stream_.reset();
    device_.observe_ops(nullptr);
  }
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // What enqueue(stream) enqueues, the same ops each time, with each op at its fastest of many
  // runs. Runs follow each other without a gap, as they do in training: workers that find nothing
  // to do fall asleep, and are missed at the start of the next op.
  template <typename Enqueue>
  WorkSeconds fastest(const Enqueue& enqueue, int runs_max = kRunsMax) {
    ops_.clear();
    ops_of_run_ = 0;
    Repeats repeats(runs_max);
    repeats.ran(run(enqueue, 1));
    ops_of_run_ = ops_.size();
    double warm_s = 0;
    int warm_runs = 0;
    while (!repeats.enough()) {
      const int runs = runs_at_once();
      const double seconds = run(enqueue, runs);
      repeats.ran(seconds, runs);
      warm_s += seconds;
      warm_runs += runs;
    }
    mean_s_ += warm_s / warm_runs;
    fastest_s_ += total().total();
    return total();
  }

  // How much longer runs took on average than the fastest ones, over all that was measured: 1 where
  // nothing else wants the machine.
  double slowdown() const { return fastest_s_ > 0 ? std::max(1.0, mean_s_ / fastest_s_) : 1; }

 private:
  static constexpr int kRunsMax = 32;

  struct Op {
    Work work;
    double fastest_s;
  };

  void op_ran(const char* name, double seconds) override {
    if (op_cost_) seconds = op_cost_(name);
    spent_s_ += seconds;
    if (ops_of_run_ == 0) {
      ops_.push_back({work_of(name), seconds});
      return;
    }
    Op& op = ops_[next_++ % ops_of_run_];
    op.fastest_s = std::min(op.fastest_s, seconds);
  }

  // Seconds of all its ops.
  template <typename Enqueue>
  double run(const Enqueue& enqueue, int runs) {
    next_ = 0;
    spent_s_ = 0;
    for (int i = 0; i < runs; ++i) enqueue(*stream_);
    stream_->synchronize();
    STRATA_CHECK(next_ % std::max<std::size_t>(ops_of_run_, 1) == 0, "runs of different ops");
    return spent_s_;
  }

  int runs_at_once() const {
    constexpr double kSeconds = 0.02;
    return static_cast<int>(std::clamp(kSeconds / total().total(), 1.0, kRunsMax / 2.0));
  }

  WorkSeconds total() const {
    WorkSeconds sum;
    for (const Op& op : ops_) sum[op.work] += op.fastest_s;
    return sum;
  }

  Device& device_;
  const OpCost op_cost_;
  std::unique_ptr<Stream> stream_;
  // Written by who tells of ops, until the stream is synchronized.
  std::vector<Op> ops_;         // of a run, in their order
  std::size_t ops_of_run_ = 0;  // 0: in the first run, which counts them
  std::size_t next_ = 0;
  double spent_s_ = 0;
  // Sums over what was measured, each once: of the mean runs but for the first, and the fastest.
  double mean_s_ = 0;
  double fastest_s_ = 0;
};

}  // namespace strata::engine
