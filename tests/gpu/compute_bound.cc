#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/bytes.h"
#include "kernels/ops/cuda/attention_choice.h"
#include "tests/gpu/measurements.h"

namespace strata::gpu_bench {
namespace {

using ops::Into;

// A linear layer of a model: x (M, K) · w (N, K)ᵀ.
struct Layer {
  const char* name;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
constexpr Layer kLayers[] = {
    {"square", 8192, 8192, 8192},
    {"gpt2-124m qkv", 4096, 2304, 768},
    {"gpt2-124m mlp", 4096, 3072, 768},
    {"gpt2-1.5b mlp", 4096, 6400, 1600},
    {"llama3-8b qkv", 4096, 6144, 4096},
    {"llama3-8b gate", 4096, 14336, 4096},
    {"llama3-8b down", 4096, 4096, 14336},
    {"llama3-8b head chunk", 4096, 16384, 4096},
    {"llama3-8b qkv, 1 row", 1, 6144, 4096},
};
constexpr Layer kTinyLayers[] = {{"square", 16, 16, 16}, {"odd", 7, 13, 5}};

void measure_layer(Bench& bench, const Layer& layer) {
  const auto [name, m, n, k] = layer;
  const Operand x = bench.random(Dtype::bf16, m, k);
  const Operand w = bench.random(Dtype::bf16, n, k);
  const Operand bias = bench.random(Dtype::bf16, 1, n);
  const Operand y = bench.random(Dtype::bf16, m, n);
  const Operand dw = bench.random(Dtype::f32, n, k);
  const Operand dbias = bench.random(Dtype::f32, 1, n);
  const Floor floor = {.flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k)};
  const auto run = [&](const char* pass, auto enqueue) {
    report("matmul", fmt::format("{} ({}, {}, {}) {}", name, m, n, k, pass), bench.seconds(enqueue),
           floor);
  };
  Stream& stream = bench.stream();
  run("forward",
      [&] { bench.ops().linear_forward(stream, y.view, x.view, w.view, bias.view.data); });
  run("backward input",
      [&] { bench.ops().linear_backward_input(stream, x.view, y.view, w.view, Into::overwrite); });
  run("backward weight", [&] {
    bench.ops().linear_backward_weight(stream, dw.view, nullptr, y.view, x.view, Into::add);
  });
  run("backward weight and bias", [&] {
    bench.ops().linear_backward_weight(stream, dw.view, dbias.f32(), y.view, x.view, Into::add);
  });
}

struct AttentionCase {
  const char* name;
  ops::AttentionShape shape;
  std::int64_t window;
};
constexpr AttentionCase kAttention[] = {
    {"gpt2-124m 8x1024", {8, 1024, 12, 12, 64}, 0},
    {"llama3-8b 4x1024", {4, 1024, 32, 8, 128}, 0},
    {"llama3-8b 1x8192", {1, 8192, 32, 8, 128}, 0},
    {"llama3-8b 1x8192, window 1024", {1, 8192, 32, 8, 128}, 1024},
};
constexpr AttentionCase kTinyAttention[] = {{"odd", {2, 37, 4, 2, 16}, 0},
                                            {"odd, window 5", {1, 37, 4, 2, 16}, 5}};

double visible_pairs(const AttentionCase& of) {
  double pairs = 0;
  for (std::int64_t i = 1; i <= of.shape.tokens; ++i) {
    pairs += static_cast<double>(of.window > 0 ? std::min(i, of.window) : i);
  }
  return pairs * static_cast<double>(of.shape.batch * of.shape.heads);
}

void measure_attention_case(Bench& bench, const AttentionCase& of, Dtype dtype) {
  const ops::AttentionShape& shape = of.shape;
  const std::int64_t packed = shape.packed_channels();
  ops::PlannedAttention planned;
  if (dtype == Dtype::bf16) {
    planned = {.shape = shape, .window = of.window, .qk_stride = packed, .has_backward = true};
  }
  bench.attach_ops(planned);
  const std::string library = ops::cuda::own_attention_because(planned) == nullptr
                                  ? ops::cuda::attention_library()
                                  : "own attention";
  const auto parts = [&](const Operand& operand) {
    const auto part = [&](std::int64_t first, std::int64_t cols) {
      return ops::Matrix{operand.memory.data() + first * bytes_of(dtype), dtype, shape.rows(), cols,
                         packed};
    };
    return ops::Qkv{part(0, shape.channels()), part(shape.channels(), shape.kv_channels()),
                    part(shape.channels() + shape.kv_channels(), shape.kv_channels())};
  };
  const Operand qkv = bench.random(dtype, shape.rows(), packed);
  const Operand gradients = bench.random(dtype, shape.rows(), packed);
  const Operand out = bench.random(dtype, shape.rows(), shape.channels());
  const Operand dout = bench.random(dtype, shape.rows(), shape.channels());
  const Operand log_sum_exp = bench.random(Dtype::f32, shape.heads, shape.rows());
  const Operand row_dots = bench.random(Dtype::f32, shape.heads, shape.rows());
  const ops::AttentionOptions options = {.window = of.window};
  const double pair_flops = visible_pairs(of) * static_cast<double>(shape.head_dim);
  const auto run = [&](const char* pass, double flops, auto enqueue) {
    report("attention", fmt::format("{} {} {}, {}", of.name, name_of(dtype), pass, library),
           bench.seconds(enqueue), {.flops = flops});
  };
  run("forward", 4 * pair_flops, [&] {
    bench.ops().attention_forward(bench.stream(), shape, options, out.view, log_sum_exp.f32(),
                                  parts(qkv));
  });
  run("backward", 10 * pair_flops, [&] {
    bench.ops().attention_backward(bench.stream(), shape, options, parts(gradients), row_dots.f32(),
                                   dout.view, parts(qkv), out.view, log_sum_exp.f32());
  });
}

}  // namespace

void measure_matmul(Bench& bench) {
  if (bench.scale() == Scale::tiny) {
    for (const Layer& layer : kTinyLayers) measure_layer(bench, layer);
  } else {
    for (const Layer& layer : kLayers) measure_layer(bench, layer);
  }
}

void measure_attention(Bench& bench) {
  if (bench.scale() == Scale::tiny) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      for (const AttentionCase& of : kTinyAttention) measure_attention_case(bench, of, dtype);
    }
  } else {
    for (const AttentionCase& of : kAttention) measure_attention_case(bench, of, Dtype::bf16);
    measure_attention_case(bench, kAttention[0], Dtype::f32);
  }
}

// Where everything overlaps, all at once takes as long as the longest alone.
void measure_overlap(Bench& bench) {
  const bool full = bench.scale() == Scale::full;
  const std::int64_t bytes = full ? 256 * kMiB : 64 * kKiB;
  const std::int64_t side = full ? 4096 : 16;
  const std::unique_ptr<Stream> up = bench.device().make_stream("host to device");
  const std::unique_ptr<Stream> down = bench.device().make_stream("device to host");
  const PinnedBuffer host_up = bench.pinned(bytes);
  const PinnedBuffer host_down = bench.pinned(bytes);
  const Operand device_up = bench.random(Dtype::f32, 1, bytes / 4);
  const Operand device_down = bench.random(Dtype::f32, 1, bytes / 4);
  const Operand x = bench.random(Dtype::bf16, side, side);
  const Operand w = bench.random(Dtype::bf16, side, side);
  const Operand y = bench.random(Dtype::bf16, side, side);

  const auto copy_up = [&] { up->copy(device_up.view.data, host_up.data(), bytes); };
  const auto copy_down = [&] { down->copy(host_down.data(), device_down.view.data, bytes); };
  const auto product = [&] {
    bench.ops().linear_forward(bench.stream(), y.view, x.view, w.view, nullptr);
  };
  const double up_s = bench.seconds(copy_up, [&] { up->synchronize(); });
  const double down_s = bench.seconds(copy_down, [&] { down->synchronize(); });
  const auto products = static_cast<int>(
      full ? std::max(1.0, std::round(std::max(up_s, down_s) / bench.seconds(product))) : 2);
  const auto compute = [&] {
    for (int i = 0; i < products; ++i) product();
  };
  const double compute_s = bench.seconds(compute);
  const double all_s = bench.seconds(
      [&] {
        copy_up();
        copy_down();
        compute();
      },
      [&] {
        up->synchronize();
        down->synchronize();
        bench.stream().synchronize();
      });
  const auto moved = static_cast<double>(bytes);
  const double flops =
      2.0 * static_cast<double>(side * side) * static_cast<double>(side) * products;
  report("overlap", "host to device", up_s, {.bytes = moved});
  report("overlap", "device to host", down_s, {.bytes = moved});
  report("overlap", "compute", compute_s, {.flops = flops});
  report("overlap", "all at once", all_s, {.bytes = 2 * moved, .flops = flops});
}

}  // namespace strata::gpu_bench
