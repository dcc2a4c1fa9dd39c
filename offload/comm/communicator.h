// Communicator: the ranks of a run and the collectives between them.
//
// Collectives work on device memory and are enqueued on a Stream, like copies: they run in that
// stream's order. Gathers and reduce-scatters run on different streams and in an order between the
// two kinds that differs from rank to rank: the kinds (and the host functions) are matched
// separately, each by a range of message tags of its own, and make progress at the same time.
// Within a kind every rank must enqueue the same ones in the same order. Host functions (barrier,
// broadcast, all_gather_host, abort) block; they are for set-up and small values.
//
// Rank order is part of the arithmetic: a reduce-scatter exchanges pieces and adds them here, in
// f32, in rank order 0, 1, …, so that the size of the pieces changes no bits.
//
// A rank that dies or stops answering ends the run: after the timeout every other rank gets a
// CommError that names it. Destroying a communicator waits for the other ranks to do the same, as
// long as they answer; after a failure, or while an exception unwinds, it waits for nobody.
// Implementations: single_rank.cc, mpi_communicator.cc, and for the cuda device
// cuda/nccl_communicator.cc (nccl.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/base/failure_latch.h"
#include "kernels/device/device.h"
#include "offload/comm/device_collectives.h"

namespace strata::comm {

struct Topology {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_world_size = 1;
  int hosts = 1;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const Topology& topology() const = 0;
  int rank() const { return topology().rank; }
  int world_size() const { return topology().world_size; }

  // attach() takes device memory for staging, once, before the first reduce-scatter; the caller
  // keeps it as long as collectives run. The sizes are those that staging_bytes() states, so that
  // the plan can charge them.
  struct StagingBytes {
    std::int64_t device = 0;
    std::int64_t host = 0;
  };
  virtual StagingBytes staging_bytes() const = 0;
  [[nodiscard]] virtual DeviceBuffer attach(Device& device) = 0;

  // full: world_size × shard_bytes, in rank order; this rank's part is already in its place.
  virtual void all_gather(Stream& stream, void* full, std::int64_t shard_bytes) = 0;

  // full: world_size × shard_elements f32, in rank order; afterwards this rank's part of `full`
  // holds the sum over ranks, and the rest of `full` is undefined. All reduce-scatters go on one
  // stream: they share the staging memory.
  virtual void reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) = 0;

  // Host functions.
  virtual void barrier() = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  // all: world_size × mine.size(), in rank order.
  virtual void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Ends the other ranks too, after this one met an error; prints nothing (a launcher may). With
  // several ranks it ends this process as well, and the launcher's status is `exit_code`, which is
  // not 0: print the error before.
  virtual void abort(int exit_code) noexcept = 0;

  // Watches collectives that a library carries out beside this communicator's own, from now on.
  virtual void watch(std::shared_ptr<const DeviceCollectives> /*collectives*/) {}
};

std::unique_ptr<Communicator> make_single_rank_communicator();

struct MpiOptions {
  std::chrono::milliseconds timeout{300000};
  // Largest message; a multiple of 4, at most 1 GiB. Staging is 2 (world_size - 1) of these.
  std::int64_t piece_bytes = 2 << 20;
};

// Whether this build can run several ranks.
bool has_mpi();

// True when a launcher (mpirun, srun) started this process as one of several ranks.
bool launched_by_mpi();

// Initialises MPI. Throws ConfigError when this build has no MPI.
// `failure` is set by the communication thread when a rank is lost.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options,
                                                    FailureLatch& failure);

}  // namespace strata::comm
