#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/cost/measured_rates.h"
#include "engine/cost/operand_fill.h"
#include "engine/cost/repeats.h"
#include "engine/cost/work_meter.h"
#include "kernels/base/bytes.h"
#include "kernels/ops/linear.h"

namespace strata::engine {

namespace {

using ops::Into;
using ops::MatmulKind;
using ops::MatmulShape;
using ops::Matrix;

constexpr std::int64_t kCopiedBytesMax = 64 * kMiB;         // far beyond what starting a copy costs
constexpr std::int64_t kDeviceCopiedBytesMax = 256 * kMiB;  // beyond a GPU's caches
constexpr int kRunsMax = 20;
constexpr int kProductsMax = 4;

struct DeviceCopy {
  Stream& stream;
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};

// All at once, in the fastest of some runs, each a few times over without a gap.
double fastest_bytes_per_s(std::initializer_list<DeviceCopy> copies) {
  constexpr int kInARow = 4;
  double best = 0;
  for (Repeats repeats(kRunsMax); !repeats.enough();) {
    std::int64_t bytes = 0;
    const Stopwatch watch;
    for (int i = 0; i < kInARow; ++i) {
      for (const DeviceCopy& copy : copies) {
        copy.stream.copy(copy.to, copy.from, copy.bytes);
        bytes += copy.bytes;
      }
    }
    for (const DeviceCopy& copy : copies) copy.stream.synchronize();
    const double seconds = watch.seconds();
    repeats.ran(seconds);
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

// The operands of a product; as many rows of activations as there is room for.
class MeasuredProduct {
 public:
  MeasuredProduct(const RunSetup& setup, Device& device, OperandFill& fill,
                  const MatmulShape& shape)
      : shape_(shape), rows_(shape.rows) {
    const bool is_of_weight = shape.kind == MatmulKind::backward_weight;
    const Dtype dtype = setup.shape.precision;
    const Dtype weight_dtype = is_of_weight ? Dtype::f32 : dtype;
    const auto bytes = [&](Dtype type, std::int64_t rows, std::int64_t cols) {
      return round_up(rows * cols * bytes_of(type), Device::kAlignmentBytes);
    };
    const auto needed = [&] {
      return bytes(weight_dtype, shape.n, shape.k) + bytes(dtype, rows_, shape.n) +
             bytes(dtype, rows_, shape.k);
    };
    const std::int64_t room = room_in(setup, offload::Tier::device, device);
    while (rows_ > 0 && needed() > room) rows_ /= 2;
    if (rows_ == 0) return;
    const auto make = [&](Dtype type, std::int64_t rows, std::int64_t cols) {
      memory_.push_back(device.allocate("measurement", bytes(type, rows, cols)));
      const Matrix matrix = Matrix::dense(memory_.back().data(), type, rows, cols);
      fill.random(matrix, 1);
      return matrix;
    };
    weight_ = make(weight_dtype, shape.n, shape.k);
    output_ = make(dtype, rows_, shape.n);
    input_ = make(dtype, rows_, shape.k);
  }

  bool fits() const { return rows_ > 0; }
  double flops() const {
    return 2.0 * static_cast<double>(rows_) * static_cast<double>(shape_.n * shape_.k);
  }
  void multiply(Stream& stream) const {
    switch (shape_.kind) {
      case MatmulKind::forward:
        return ops::linear_forward(stream, output_, input_, weight_, nullptr);
      case MatmulKind::backward_input:
        return ops::linear_backward_input(stream, input_, output_, weight_, Into::overwrite);
      case MatmulKind::backward_weight:
        return ops::linear_backward_weight(stream, weight_, nullptr, output_, input_,
                                           Into::overwrite);
    }
  }

 private:
  MatmulShape shape_;
  std::int64_t rows_;
  std::vector<DeviceBuffer> memory_;
  Matrix weight_;  // (N, K), or its gradient
  Matrix output_;  // (rows, N), or its gradient
  Matrix input_;   // (rows, K), or its gradient
};

}  // namespace

GpuRates measure_gpu_links(const RunSetup& setup, Device& device) {
  const auto half_of = [&](offload::Tier tier, std::int64_t bytes_max) {
    return std::min(bytes_max, room_in(setup, tier, device) / 2) / kPageBytes * kPageBytes;
  };
  const std::int64_t within = half_of(offload::Tier::device, kDeviceCopiedBytesMax);
  const std::int64_t across = std::min(within, half_of(offload::Tier::host, kCopiedBytesMax));
  if (across <= 0) return {};
  const PinnedBuffer host = device.allocate_pinned("measurement", 2 * across);
  const DeviceBuffer memory = device.allocate("measurement", 2 * within);
  const std::unique_ptr<Stream> up = device.make_stream("measurement");
  const std::unique_ptr<Stream> down = device.make_stream("measurement");
  up->fill_zero(memory.data(), memory.bytes());
  up->synchronize();
  const DeviceCopy to_device{*up, memory.data(), host.data(), across};
  const DeviceCopy from_device{*down, host.data() + across, memory.data() + within, across};
  GpuRates rates;
  rates.to_device_bytes_per_s = fastest_bytes_per_s({to_device});
  rates.from_device_bytes_per_s = fastest_bytes_per_s({from_device});
  rates.both_ways_bytes_per_s = fastest_bytes_per_s({to_device, from_device});
  // Read and written.
  rates.memory_bytes_per_s =
      2 * fastest_bytes_per_s({{*up, memory.data() + within, memory.data(), within}});
  return rates;
}

std::vector<ops::MatmulChoice> measure_gpu_matmuls(const RunSetup& setup, Device& device) {
  OperandFill fill(setup, device);
  WorkMeter meter(device);
  std::vector<ops::MatmulChoice> choices;
  for (const MatmulShape& shape : matmul_shapes(setup.shape)) {
    choices.push_back({shape.kind, shape.n, shape.k, setup.shape.precision});
    if (setup.shape.purpose == Purpose::inference) continue;
    const MeasuredProduct product(setup, device, fill, shape);
    if (!product.fits()) continue;
    const WorkSeconds seconds =
        meter.fastest([&](Stream& stream) { product.multiply(stream); }, kProductsMax);
    choices.back().flops_per_s = product.flops() / seconds.total();
  }
  return choices;
}

}  // namespace strata::engine
