// OptimizerBench: measures the optimizer's update against its floor, the same loads and stores
// without arithmetic (optim_cpu/memory_floor.h).
//
// As in training, worker threads take tiles of 65,536 elements, here of the whole state in memory.
// Floor and update alternate, so that what else the machine does meets both; figures are medians.
// One thread calls; all memory is taken at construction.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/budget.h"
#include "kernels/base/worker_set.h"
#include "optim_cpu/optimizer.h"

namespace strata::engine {

// What is updated: an optimizer and the formats of its state.
struct OptimizerVariant {
  enum class Masters : std::uint8_t { split, f32 };

  const char* name;
  optim::Method method = optim::Method::adamw;
  Masters masters = Masters::split;
  MomentFormat moments = MomentFormat::f32;
  Dtype gradient = Dtype::f32;

  // Of an element, in one update.
  double read_bytes() const;
  double written_bytes() const;
};

std::span<const OptimizerVariant> optimizer_variants();
// Throws ConfigError.
const OptimizerVariant& parse_optimizer_variant(const std::string& name);

struct OptimizerBenchCell {
  OptimizerVariant variant;
  int threads = 0;
  double update_ns = 0;  // per element
  double floor_ns = 0;
  double share_of_floor = 0;  // median of floor / update, pair by pair

  double bytes_per_s() const;
};

class OptimizerBench {
 public:
  // Of memory, whatever the variant; scales and whole pages included.
  static constexpr std::int64_t kElementBytesMax = 19;

  OptimizerBench(std::int64_t elements, Isa isa);

  // Pairs of floor and update.
  OptimizerBenchCell measure(const OptimizerVariant& variant, WorkerSet& workers, int pairs);

 private:
  void fill(const OptimizerVariant& variant, WorkerSet& workers);
  optim::State state(const OptimizerVariant& variant, std::int64_t begin, std::int64_t end) const;
  // Nanoseconds per element of one visit of all of them.
  template <typename Visit>
  double time_ns(WorkerSet& workers, const Visit& visit) const;

  const std::int64_t elements_;
  const Isa isa_;
  Budget budget_;
  AlignedBuffer weight_;
  AlignedBuffer remainder_;
  AlignedBuffer moment1_;
  AlignedBuffer moment2_;
  AlignedBuffer scales1_;
  AlignedBuffer scales2_;
  AlignedBuffer gradient_;
};

std::string optimizer_bench_header();
std::string optimizer_bench_row(const OptimizerBenchCell& cell);
nlohmann::json optimizer_bench_json(std::span<const OptimizerBenchCell> cells);

}  // namespace strata::engine
