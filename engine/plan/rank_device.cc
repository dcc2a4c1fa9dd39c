#include "engine/plan/rank_device.h"

#include <utility>

#include "engine/options/option_check.h"
#include "kernels/base/error.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::engine {

namespace {

constexpr const char* kOneRank = "several ranks train on processors only, so far";
constexpr const char* kMultipliesBf16 =
    "a GPU multiplies bf16 as bf16, not with --matmul-dtype f32";

}  // namespace

CudaSearch find_device(const Options& options, const comm::Topology& topology) {
  if (topology.world_size == 1) return resolve_device(options);
  if (options.device == "cuda") {
    throw_error<ConfigError>("--device cuda: {}; start one rank, or use --device cpu", kOneRank);
  }
  return {std::nullopt, options.device == "auto" ? kOneRank : ""};
}

RankDevice open_device(const Options& options, const comm::Topology& topology) {
  CudaSearch found = find_device(options, topology);
  RankDevice device{std::nullopt, std::move(found.reason)};
  if (!found.backend) return device;
  const bool is_auto = options.device == "auto";
  if (options.precision == "bf16" && options.matmul_dtype == "f32") {
    if (!is_auto) {
      throw_error<ConfigError>("--device cuda: {}; leave --matmul-dtype out, or use --device cpu",
                               kMultipliesBf16);
    }
    device.reason = kMultipliesBf16;
    return device;
  }
  device.gpu = {*found.backend, found.backend->open_gpu(topology.local_rank)};
  if (is_auto) device.reason = "there is a GPU";
  return device;
}

std::string matmul_library(const RankDevice& device) {
  if (!device.gpu) return ops::matmul_library();
  return fmt::format("{} on {}", ops::cuda_matmul_library(device.gpu->backend),
                     device.gpu->gpu.name);
}

}  // namespace strata::engine
