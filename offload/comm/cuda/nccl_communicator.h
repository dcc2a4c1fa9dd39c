// NcclCommunicator: collectives between GPUs by NCCL (nccl.h).
//
// Gathers and reduce-scatters have an NCCL communicator each, since their order differs from rank
// to rank. NCCL allows that on conditions (its user guide, "Using multiple NCCL communicators
// concurrently"), and here is how they are met:
//   - A kernel of NCCL occupies its blocks until all ranks have come, so both kinds' kernels must
//     fit at the same time: they have few blocks (nccl_comm.cc), and no kernel of ours waits.
//   - Nothing may make the whole device wait while a kernel of NCCL does: no memory is allocated
//     once training runs, by us nor, after the collectives at the start, by NCCL; and kernels must
//     not be loaded at their first use (CUDA_MODULE_LOADING=EAGER).
//   - Streams must not share a hardware queue, or one kind waits for the other
//     (CUDA_DEVICE_MAX_CONNECTIONS=32). Both variables count when the context is made.
// Should all ranks wait for each other nevertheless, the watch over the collectives ends the run.
//
// A run that has failed aborts both kinds as one group, for an abort may wait for all that the GPU
// does, and so for the other kind. It may wait for the ranks of the host, too, which may be
// stopped: how long a failed run takes to end, its caller bounds.
//
// A reduce-scatter goes piece by piece: the ranks exchange one, and it is summed in rank order, all
// on the stream. What a sum takes, some (ranks + 1) / (ranks - 1) of the exchanged bytes at the
// memory's bandwidth, is not hidden behind the next exchange, which is many times slower.
#pragma once

#include <memory>
#include <mutex>
#include <thread>

#include "kernels/device/cuda_backend.h"
#include "offload/comm/communicator.h"
#include "offload/comm/cuda/nccl_comm.h"
#include "offload/comm/nccl.h"

namespace strata::comm {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, Gpu& gpu, const NcclOptions& options, FailureLatch& failure);
  ~NcclCommunicator() override;

  const Topology& topology() const override { return host_.topology(); }
  StagingBytes staging_bytes() const override;
  DeviceBuffer attach(Device& device) override;
  void all_gather(Stream& stream, void* full, std::int64_t shard_bytes) override;
  void reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) override;
  void barrier() override { host_.barrier(); }
  void broadcast(std::span<std::byte> data, int root) override { host_.broadcast(data, root); }
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
    host_.all_gather_host(mine, all);
  }
  void abort(int exit_code) noexcept override { host_.abort(exit_code); }

 private:
  void start();
  void warm_up();
  void watch_collectives(const std::stop_token& stop);
  void finish();
  void abort_both();
  void gather(cudaStream_t stream, std::byte* full, std::int64_t shard_bytes);
  void reduce(cudaStream_t stream, float* full, std::int64_t shard_elements, float* staging);
  ncclResult_t exchange(ncclComm_t comm, cudaStream_t stream, const float* full,
                        std::int64_t shard_elements, std::int64_t elements, float* staging) const;

  Communicator& host_;
  const int gpu_;
  const NcclOptions options_;
  const std::int64_t piece_elements_;
  FailureLatch& failure_;
  const int exceptions_before_;
  const Nccl nccl_;
  const std::shared_ptr<DeviceCollectives> collectives_;
  std::mutex calls_;  // of NCCL
  NcclComm gathers_;
  NcclComm reductions_;
  float* staging_ = nullptr;
  std::jthread watcher_;
};

}  // namespace strata::comm
