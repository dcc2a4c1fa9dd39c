// What the CUDA backend's kernels do on the GPU at hand, for scripts/gpu_check:
//
//   gpu_measure memory|matmul|attention|overlap|enqueue|all [--tiny]
//
// Prints a line of JSON for each measurement: its seconds, and the bytes or flops of its floor.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "kernels/device/cuda/cuda_error.h"
#include "tests/gpu/measurements.h"

namespace strata::gpu_bench {
namespace {

struct Group {
  std::string_view name;
  void (*measure)(Bench& bench);
};
constexpr Group kGroups[] = {{"memory", measure_memory},
                             {"matmul", measure_matmul},
                             {"attention", measure_attention},
                             {"overlap", measure_overlap},
                             {"enqueue", measure_enqueue}};

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

// Kernels are loaded when they first run: what that takes is beside the context that the budget was
// charged for.
void measure(Bench& bench, const Group& group) {
  const std::int64_t before = free_bytes();
  group.measure(bench);
  bench.stream().synchronize();
  std::printf(R"({"kind": "context", "name": "%s", "context_bytes": %lld, "grew_bytes": %lld})"
              "\n",
              std::string(group.name).c_str(), static_cast<long long>(bench.gpu().context_bytes),
              static_cast<long long>(before - free_bytes()));
}

int main(std::string_view asked, Scale scale) {
  bool found = false;
  Bench bench(scale);
  for (const Group& group : kGroups) {
    if (asked != "all" && asked != group.name) continue;
    found = true;
    measure(bench, group);
  }
  if (!found) std::fprintf(stderr, "gpu_measure: no group '%s'\n", std::string(asked).c_str());
  return found ? 0 : 2;
}

}  // namespace
}  // namespace strata::gpu_bench

int main(int argc, char** argv) {
  using strata::gpu_bench::Scale;
  const bool tiny = argc == 3 && std::string_view(argv[2]) == "--tiny";
  if (argc < 2 || (argc > 2 && !tiny)) {
    std::fputs("usage: gpu_measure memory|matmul|attention|overlap|enqueue|all [--tiny]\n", stderr);
    return 2;
  }
  try {
    return strata::gpu_bench::main(argv[1], tiny ? Scale::tiny : Scale::full);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_measure: %s\n", error.what());
    return 1;
  }
}
