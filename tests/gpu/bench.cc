#include "tests/gpu/bench.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "kernels/base/bytes.h"
#include "kernels/device/cuda/gpu.h"

STRATA_CUDA_ENTRY_POINT strata::ops::cuda_entry::AttachOps strata_cuda_attach_ops;

namespace strata::gpu_bench {
namespace {

constexpr std::int64_t kHostBytes = 2 * kGiB;
constexpr std::int64_t kDeviceBytesMax = 6 * kGiB;
constexpr std::int64_t kTinyDeviceBytes = 256 * kMiB;
constexpr double kRunSeconds = 0.02;
constexpr int kRuns = 5;
// What ops take scratch memory for, whatever they are called with here.
constexpr ops::CpuOpsLimits kLimits = {.weight_rows_max = 32768,
                                       .weight_cols_max = 32768,
                                       .rows_max = 32768,
                                       .tokens_max = 1024,
                                       .head_dim = 128,
                                       .heads_per_kv_head = 4};

std::int64_t random_bytes(Scale scale) { return scale == Scale::full ? 32 * kMiB : 16 * kKiB; }

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Run>
double median_of_runs(const Run& run) {
  std::vector<double> times(kRuns);
  for (double& time : times) time = run();
  std::ranges::nth_element(times, times.begin() + kRuns / 2);
  return times[kRuns / 2];
}

void fill(const PinnedBuffer& buffer, Dtype dtype) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const std::int64_t elements = buffer.bytes() / bytes_of(dtype);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = uniform(generator);
    if (dtype == Dtype::f32) {
      buffer.as<float>()[i] = value;
    } else {
      buffer.as<bf16>()[i] = to_bf16_nearest_even(value);
    }
  }
}

}  // namespace

CudaDeviceOptions Bench::options(Scale scale) {
  set_cuda_environment();
  const Gpu gpu = cuda::open_gpu(0);
  const std::int64_t bytes =
      scale == Scale::full ? std::min(gpu.free_bytes / 5 * 4, kDeviceBytesMax) : kTinyDeviceBytes;
  return {.gpu = gpu, .device_memory_bytes = gpu.context_bytes + bytes};
}

Bench::Bench(Scale scale)
    : scale_(scale),
      options_(options(scale)),
      host_("host memory", kHostBytes),
      device_(options_, host_, failure_),
      stream_(device_.make_stream("compute")),
      random_f32_(pinned(random_bytes(scale))),
      random_bf16_(pinned(random_bytes(scale))) {
  attach_ops();
  fill(random_f32_, Dtype::f32);
  fill(random_bf16_, Dtype::bf16);
}

void Bench::attach_ops(const ops::PlannedAttention& attention) {
  ops::CpuOpsLimits limits = kLimits;
  limits.attention = attention;
  stream_->synchronize();
  device_.attach(nullptr);  // before more memory is taken
  strata_cuda_attach_ops(device_, limits);
}

void Bench::upload(const DeviceBuffer& to, const PinnedBuffer& from, std::int64_t bytes) {
  for (std::int64_t done = 0; done < bytes; done += from.bytes()) {
    stream_->copy(to.data() + done, from.data(), std::min(from.bytes(), bytes - done));
  }
  stream_->synchronize();
}

Operand Bench::random(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  const std::int64_t bytes = rows * cols * bytes_of(dtype);
  Operand operand{device_.allocate("operand", bytes), {}};
  operand.view = ops::Matrix::dense(operand.memory.data(), dtype, rows, cols);
  upload(operand.memory, dtype == Dtype::f32 ? random_f32_ : random_bf16_, bytes);
  return operand;
}

Operand Bench::ids(const std::vector<std::int32_t>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const PinnedBuffer host = pinned(count * 4);
  std::ranges::copy(values, host.as<std::int32_t>());
  Operand operand{device_.allocate("ids", count * 4), {}};
  operand.view = ops::Matrix::dense(operand.memory.data(), Dtype::f32, 1, count);
  upload(operand.memory, host, count * 4);
  return operand;
}

double Bench::seconds(const std::function<void()>& enqueue,
                      const std::function<void()>& synchronize) {
  const auto run = [&](int repeats) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) enqueue();
    synchronize();
    return seconds_since(start);
  };
  run(1);
  if (scale_ == Scale::tiny) return run(1);
  int repeats = 1;
  while (run(repeats) < kRunSeconds) repeats *= 2;
  return median_of_runs([&] { return run(repeats) / repeats; });
}

double Bench::host_seconds(const std::function<void()>& enqueue) {
  stream_->synchronize();
  constexpr int kRepeats = 8;  // a block's 40 launches each, of some 1,000 that a stream takes
  return median_of_runs([&] {
    const auto start = Clock::now();
    for (int i = 0; i < kRepeats; ++i) enqueue();
    const double seconds = seconds_since(start) / kRepeats;
    stream_->synchronize();
    return seconds;
  });
}

void report(const char* kind, const std::string& name, double seconds, const Floor& floor) {
  std::printf(R"({"kind": "%s", "name": "%s", "seconds": %.6g, "bytes": %.0f, "flops": %.0f})"
              "\n",
              kind, name.c_str(), seconds, floor.bytes, floor.flops);
  std::fflush(stdout);
}

void report_enqueue(const std::string& name, double host_seconds, double seconds) {
  std::printf(R"({"kind": "enqueue", "name": "%s", "host_seconds": %.6g, "seconds": %.6g})"
              "\n",
              name.c_str(), host_seconds, seconds);
  std::fflush(stdout);
}

}  // namespace strata::gpu_bench
