#include "engine/run/rank_devices.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "engine/options/option_check.h"
#include "engine/run/unwind_deadline.h"
#include "kernels/base/error.h"
#include "kernels/ops/cuda_ops.h"
#include "offload/comm/nccl.h"

namespace strata::engine {

namespace {

// Of one GPU, the same in every process that sees it.
using GpuId = std::array<char, 64>;

struct FoundGpu {
  CudaBackend backend;
  GpuId id{};
};

// Throws ConfigError where this rank has none to compute on. Makes nothing on it yet.
FoundGpu find_gpu(const Options& options, const comm::Topology& topology) {
  CudaSearch search = resolve_device(options);
  if (!search.backend) throw ConfigError(search.reason);
  if (options.precision == "bf16" && options.matmul_dtype == "f32") {
    throw ConfigError(
        "a GPU multiplies bf16 as bf16, not with --matmul-dtype f32: leave that out, or use "
        "--device cpu");
  }
  if (topology.world_size > 1) comm::require_nccl(*search.backend);
  FoundGpu found{std::move(*search.backend)};
  const std::string id = found.backend.gpu_id(topology.local_rank);
  std::copy_n(id.data(), std::min(id.size(), found.id.size()), found.id.data());
  return found;
}

// Collective. Throws on all ranks.
void require_own_gpus(comm::Communicator& comm, const GpuId& mine) {
  std::vector<GpuId> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (auto second = all.begin(); second != all.end(); ++second) {
    const auto first = std::find(all.begin(), second, *second);
    if (first == second) continue;
    const std::string text = fmt::format(
        "ranks {} and {} have the same GPU: start a rank per GPU, each of which sees "
        "all GPUs of its machine or one of its own (CUDA_VISIBLE_DEVICES)",
        first - all.begin(), second - all.begin());
    throw AgreedFailure(text, kExitUsage);
  }
}

CudaBackend find_gpus(const Options& options, comm::Communicator& comm) {
  FoundGpu found = agree(comm, [&] { return find_gpu(options, comm.topology()); });
  require_own_gpus(comm, found.id);
  return std::move(found.backend);
}

ops::LibraryAttention library_attention(const Options& options) {
  return options.precision == "bf16" && !options.pack ? ops::LibraryAttention::planned
                                                      : ops::LibraryAttention::never;
}

Gpu open_gpu(const CudaBackend& backend, const Options& options, const comm::Communicator& comm) {
  Gpu gpu = backend.open_gpu(comm.topology().local_rank);
  ops::charge_cuda_ops(backend, gpu, library_attention(options));
  return gpu;
}

RankDevice open_device(const Options& options, comm::Communicator& comm) {
  if (options.device == "cpu") return {};
  const bool is_auto = options.device == "auto";
  try {
    CudaBackend backend = find_gpus(options, comm);
    Gpu gpu = agree(comm, [&] { return open_gpu(backend, options, comm); });
    const char* const found = comm.world_size() == 1 ? "there is a GPU" : "every rank has a GPU";
    return {RankGpu{std::move(backend), std::move(gpu)}, is_auto ? found : ""};
  } catch (const Error& error) {
    if (!is_auto) throw;
    return {std::nullopt, error.what()};
  }
}

}  // namespace

int run_on_devices(const Options& options, const Ranks& joined,
                   const std::function<int(Ranks&)>& command) {
  require_same(joined.comm, shared_options(options));
  RankDevice device;
  if (options.machine.empty()) device = open_device(options, joined.comm);
  if (device.gpu) {
    require_same(joined.comm, {{"library for products and attention",
                                ops::cuda_matmul_library(device.gpu->backend)}});
  }
  std::optional<UnwindDeadline> deadline;
  if (device.gpu) deadline.emplace(joined.comm, joined.failure);
  std::unique_ptr<comm::Communicator> between_gpus;
  if (device.gpu && joined.comm.world_size() > 1) {
    auto& [backend, gpu] = *device.gpu;
    between_gpus = comm::make_nccl_communicator(backend, joined.comm, gpu,
                                                {.timeout = comm_timeout(options)}, joined.failure);
    agree_on_memory(joined.comm, gpu);
  }
  Ranks ranks{between_gpus ? *between_gpus : joined.comm, joined.failure, joined.binding,
              std::move(device)};
  return command(ranks);
}

void without_gpu(const Options& options, Ranks& ranks, const std::function<void()>& body) {
  if (!ranks.device.gpu) return body();
  auto& [backend, gpu] = *ranks.device.gpu;
  backend.close_gpu(gpu);
  body();
  gpu = open_gpu(backend, options, ranks.comm);
}

void agree_on_memory(comm::Communicator& comm, Gpu& gpu) {
  struct Memory {
    std::int64_t free_bytes;
    std::int64_t context_bytes;
  };
  const Memory mine{gpu.free_bytes, gpu.context_bytes};
  std::vector<Memory> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  gpu.free_bytes = std::ranges::min(all, {}, &Memory::free_bytes).free_bytes;
  gpu.context_bytes = std::ranges::max(all, {}, &Memory::context_bytes).context_bytes;
}

}  // namespace strata::engine
