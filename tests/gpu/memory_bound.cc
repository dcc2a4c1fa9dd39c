// Bytes are those of each kernel's stated floor: every input read once, every output written once.
#include <fmt/format.h>

#include <numeric>

#include "kernels/device/cuda/cuda_stream.h"
#include "offload/comm/cuda/rank_sum.h"
#include "tests/gpu/measurements.h"

namespace strata::gpu_bench {
namespace {

using ops::Into;
using ops::Matrix;

// Larger than any GPU's L2.
struct Size {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t vocabulary;  // columns of a chunk of logits
};
Size size_of(Scale scale) {
  return scale == Scale::full ? Size{16384, 4096, 16384} : Size{9, 40, 72};
}

class MemoryBound {
 public:
  MemoryBound(Bench& bench, Dtype dtype)
      : bench_(bench), dtype_(dtype), size_(size_of(bench.scale())) {}

  void elementwise() {
    const Operand a = matrix();
    const Operand b = matrix();
    const Operand c = matrix();
    const Operand d = matrix();
    const Operand e = matrix();
    run("gelu_forward", 2, [&] { ops().gelu_forward(stream(), a.view, b.view); });
    run("gelu_backward", 3, [&] { ops().gelu_backward(stream(), a.view, b.view, c.view); });
    run("swiglu_forward", 3, [&] { ops().swiglu_forward(stream(), a.view, b.view, c.view); });
    run("swiglu_backward", 5,
        [&] { ops().swiglu_backward(stream(), a.view, b.view, c.view, d.view, e.view); });
    run("add", 3, [&] { ops().add(stream(), a.view, b.view, c.view); });
  }

  void norms() {
    const Operand x = matrix();
    const Operand y = matrix();
    const Operand dx = matrix();
    const Operand weight = bench_.random(dtype_, 1, size_.cols);
    const Operand bias = bench_.random(dtype_, 1, size_.cols);
    const Operand mean = bench_.random(Dtype::f32, 1, size_.rows);
    const Operand rstd = bench_.random(Dtype::f32, 1, size_.rows);
    const Operand dweight = bench_.random(Dtype::f32, 1, size_.cols);
    const Operand dbias = bench_.random(Dtype::f32, 1, size_.cols);
    run("layernorm_forward", 2, [&] {
      ops().layernorm_forward(stream(), y.view, mean.f32(), rstd.f32(), x.view, weight.view.data,
                              bias.view.data);
    });
    run("layernorm_backward", 3, [&] {
      ops().layernorm_backward(stream(), dx.view, Into::overwrite, dweight.f32(), dbias.f32(),
                               Into::add, y.view, x.view, weight.view.data, mean.f32(), rstd.f32());
    });
    run("rmsnorm_forward", 2,
        [&] { ops().rmsnorm_forward(stream(), y.view, rstd.f32(), x.view, weight.view, 1e-5f); });
    run("rmsnorm_backward", 3, [&] {
      ops().rmsnorm_backward(stream(), dx.view, Into::overwrite, dweight.view, Into::add, y.view,
                             x.view, weight.view, rstd.f32());
    });
  }

  void rotary() {
    const std::int64_t head_dim = bench_.scale() == Scale::full ? 128 : 8;
    const Operand x = matrix();
    const Operand cos = bench_.random(Dtype::f32, size_.rows, head_dim / 2);
    const Operand sin = bench_.random(Dtype::f32, size_.rows, head_dim / 2);
    const ops::RotaryTables tables = {cos.f32(), sin.f32(), size_.rows, head_dim};
    const Operand positions = bench_.ids(counting(size_.rows));
    run("rotary_forward", 2,
        [&] { ops().rotary_forward(stream(), x.view, tables, positions.i32()); });
  }

  // Each row of the table once, out of order.
  void embedding() {
    std::vector<std::int32_t> order = counting(size_.rows);
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<std::int32_t>(i * 7919 % order.size());
    }
    const Operand ids = bench_.ids(order);
    const Operand x = matrix();
    const Operand table = matrix();
    run("embedding_forward", 2, [&] {
      ops().embedding_forward(stream(), x.view, Into::overwrite, ids.i32(), table.view, 0);
    });
    const Operand dtable = bench_.random(Dtype::f32, size_.rows, size_.cols);
    const double bytes = elements() * static_cast<double>(bytes_of(dtype_) + 8);
    run_bytes("embedding_backward", bytes, [&] {
      ops().embedding_backward(stream(), dtable.view, Into::add, x.view, ids.i32(), 0);
    });
  }

  void cross_entropy() {
    const std::int64_t rows = size_.rows / 4 + 1;
    const Operand logits = bench_.random(Dtype::f32, rows, size_.vocabulary);
    const Operand dlogits = bench_.random(dtype_, rows, size_.vocabulary);
    const Operand max = bench_.random(Dtype::f32, 1, rows);
    const Operand sum = bench_.random(Dtype::f32, 1, rows);
    const Operand target = bench_.random(Dtype::f32, 1, rows);
    const ops::SoftmaxStats stats = {max.f32(), sum.f32(), target.f32()};
    const Operand targets = bench_.ids(counting(rows));
    ops().softmax_stats_init(stream(), stats, rows);
    const auto update = [&] {
      ops().softmax_stats_update(stream(), stats, logits.view, targets.i32(), 0);
    };
    update();
    const double count = static_cast<double>(rows * size_.vocabulary);
    if (dtype_ == Dtype::f32)
      run_bytes("softmax_stats_update", 4 * count, update);  // as logits are
    run_bytes("cross_entropy_backward", static_cast<double>(4 + bytes_of(dtype_)) * count, [&] {
      ops().cross_entropy_backward(stream(), dlogits.view, logits.view, stats, targets.i32(), 0,
                                   1.0f);
    });
  }

 private:
  ops::CudaOps& ops() { return bench_.ops(); }
  Stream& stream() { return bench_.stream(); }
  Operand matrix() { return bench_.random(dtype_, size_.rows, size_.cols); }
  double elements() const { return static_cast<double>(size_.rows * size_.cols); }

  static std::vector<std::int32_t> counting(std::int64_t count) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return values;
  }

  // `matrices` are read or written.
  template <typename Enqueue>
  void run(const char* name, int matrices, Enqueue enqueue) {
    run_bytes(name, matrices * elements() * static_cast<double>(bytes_of(dtype_)), enqueue);
  }
  template <typename Enqueue>
  void run_bytes(const char* name, double bytes, Enqueue enqueue) {
    report("memory", fmt::format("{} {}", name, name_of(dtype_)), bench_.seconds(enqueue),
           {.bytes = bytes});
  }

  Bench& bench_;
  Dtype dtype_;
  Size size_;
};

// Of a reduce-scatter between 4 ranks.
void measure_rank_sum(Bench& bench) {
  constexpr int kRanks = 4;
  const auto [rows, cols, vocabulary] = size_of(bench.scale());
  const std::int64_t elements = rows * cols;
  const Operand own = bench.random(Dtype::f32, 1, elements);
  const Operand others = bench.random(Dtype::f32, kRanks - 1, elements);
  const auto sum = [&](cudaStream_t stream) {
    comm::sum_in_rank_order(stream, own.f32(), others.f32(), elements, 1, kRanks, elements);
  };
  const double seconds = bench.seconds([&] { as_cuda(bench.stream()).launch("rank_sum", sum); });
  report("memory", "rank_sum of 4", seconds,
         {.bytes = static_cast<double>((kRanks + 1) * elements * bytes_of(Dtype::f32))});
}

}  // namespace

void measure_memory(Bench& bench) {
  {
    const Size size = size_of(bench.scale());
    const Operand from = bench.random(Dtype::f32, size.rows, size.cols);
    const Operand to = bench.random(Dtype::f32, size.rows, size.cols);
    const std::int64_t bytes = from.view.span_bytes();
    const double seconds =
        bench.seconds([&] { bench.stream().copy(to.view.data, from.view.data, bytes); });
    report("memory", "device copy", seconds, {.bytes = 2.0 * static_cast<double>(bytes)});
  }
  measure_rank_sum(bench);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    MemoryBound kernels(bench, dtype);
    kernels.elementwise();
    kernels.norms();
    kernels.rotary();
    kernels.embedding();
    kernels.cross_entropy();
  }
}

}  // namespace strata::gpu_bench
