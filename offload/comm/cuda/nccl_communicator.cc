#include "offload/comm/cuda/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/device/cuda/cuda_stream.h"
#include "kernels/device/cuda/gpu.h"
#include "offload/comm/cuda/rank_sum.h"

namespace strata::comm {
namespace {

using namespace std::chrono_literals;
using cuda::check;

constexpr std::chrono::milliseconds kStartTimeoutMin = 60s;
constexpr std::chrono::milliseconds kLookPeriod = 20ms;
constexpr std::int64_t kF32Bytes = sizeof(float);

// The GPU that a rank is given becomes the thread's current one.
int made_current(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
  return gpu;
}

// Of the first collectives.
class WarmUpMemory {
 public:
  explicit WarmUpMemory(std::int64_t bytes) {
    check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), "cudaMalloc");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaMemsetAsync(data_, 0, static_cast<std::size_t>(bytes), stream_), "cudaMemsetAsync");
  }
  ~WarmUpMemory() {  // an error here is one that the run has ended with
    (void)cudaStreamDestroy(stream_);
    (void)cudaFree(data_);
    (void)cudaGetLastError();
  }
  WarmUpMemory(const WarmUpMemory&) = delete;
  WarmUpMemory& operator=(const WarmUpMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  cudaStream_t stream() const { return stream_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& host, Gpu& gpu, const NcclOptions& options,
                                   FailureLatch& failure)
    : host_(host),
      gpu_(made_current(gpu.index)),
      options_(options),
      piece_elements_(options.piece_bytes / kF32Bytes),
      failure_(failure),
      exceptions_before_(std::uncaught_exceptions()),
      nccl_(load_nccl()),
      collectives_(std::make_shared<DeviceCollectives>()),
      gathers_(nccl_, calls_, collectives_, 0, options.timeout, failure),
      reductions_(nccl_, calls_, collectives_, 1, options.timeout, failure) {
  STRATA_CHECK(options.piece_bytes > 0 && options.piece_bytes % 16 == 0, "pieces of {} bytes",
               options.piece_bytes);
  host_.watch(collectives_);
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch_collectives(stop); });
  try {
    start();
    warm_up();
  } catch (...) {
    watcher_ = std::jthread();
    abort_both();
    throw;
  }
  cuda::charge_growth(gpu);
}

// As MPI's: a rank that fails or unwinds waits for nobody.
NcclCommunicator::~NcclCommunicator() {
  watcher_ = std::jthread();
  const bool unwinds = failure_.failed() || std::uncaught_exceptions() > exceptions_before_;
  try {
    made_current(gpu_);
    if (!unwinds) finish();
  } catch (...) {
    failure_.set(std::current_exception());
  }
  abort_both();  // what has not ended
}

// Both are complete first: ending one may wait for a rank, and the other is not under way
// meanwhile.
void NcclCommunicator::finish() {
  gathers_.mark_complete();
  reductions_.mark_complete();
  gathers_.finish();
  reductions_.finish();
}

void NcclCommunicator::start() {
  const auto timeout = std::max(options_.timeout, kStartTimeoutMin);
  for (NcclComm* const comm : {&gathers_, &reductions_}) {
    ncclUniqueId id{};
    if (rank() == 0 && nccl_.ncclGetUniqueId(&id) != ncclSuccess) {
      throw_error<CommError>("NCCL cannot start: {}", nccl_.ncclGetLastError(nullptr));
    }
    host_.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    comm->start(id, rank(), world_size(), timeout);
  }
}

// NCCL connects and allocates at first use, and not the same for short and long messages.
void NcclCommunicator::warm_up() {
  const std::int64_t ranks = world_size();
  const std::int64_t full_bytes = ranks * options_.piece_bytes;
  const WarmUpMemory memory(full_bytes + std::max<std::int64_t>(staging_bytes().device, 1));
  auto* const full = reinterpret_cast<float*>(memory.data());
  auto* const staging = reinterpret_cast<float*>(memory.data() + full_bytes);
  for (const std::int64_t elements : {std::int64_t{1}, piece_elements_}) {
    gather(memory.stream(), memory.data(), elements * kF32Bytes);
    reduce(memory.stream(), full, elements, staging);
  }
  check(cudaStreamSynchronize(memory.stream()), "cudaStreamSynchronize");
  failure_.check();
}

// Once the run has failed, whatever waits for the GPU is let go.
void NcclCommunicator::watch_collectives(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested() && !failure_.failed()) {
    try {
      made_current(gpu_);
      gathers_.look();
      reductions_.look();
    } catch (...) {
      failure_.set(std::current_exception());
    }
    stopped.wait_for(lock, stop, kLookPeriod, [] { return false; });
  }
  if (failure_.failed()) abort_both();
}

void NcclCommunicator::abort_both() {
  const std::array comms = {gathers_.release(), reductions_.release()};
  (void)nccl_.ncclGroupStart();
  for (const ncclComm_t comm : comms) {
    if (comm != nullptr) (void)nccl_.ncclCommAbort(comm);
  }
  (void)nccl_.ncclGroupEnd();
}

Communicator::StagingBytes NcclCommunicator::staging_bytes() const {
  return {.device = round_up((world_size() - 1) * options_.piece_bytes, Device::kAlignmentBytes),
          .host = 0};
}

DeviceBuffer NcclCommunicator::attach(Device& device) {
  const std::int64_t bytes = staging_bytes().device;
  if (bytes == 0) return {};
  DeviceBuffer staging = device.allocate("collective staging", bytes);
  staging_ = reinterpret_cast<float*>(staging.data());
  return staging;
}

void NcclCommunicator::all_gather(Stream& stream, void* full, std::int64_t shard_bytes) {
  as_cuda(stream).launch("all_gather", [&](cudaStream_t cuda_stream) {
    gather(cuda_stream, static_cast<std::byte*>(full), shard_bytes);
  });
}

void NcclCommunicator::reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) {
  STRATA_CHECK(world_size() == 1 || staging_ != nullptr, "reduce_scatter before attach");
  as_cuda(stream).launch("reduce_scatter", [&](cudaStream_t cuda_stream) {
    reduce(cuda_stream, full, shard_elements, staging_);
  });
}

void NcclCommunicator::gather(cudaStream_t stream, std::byte* full, std::int64_t shard_bytes) {
  gathers_.collective(stream, [&] {
    gathers_.call([&](ncclComm_t comm) {
      return nccl_.ncclAllGather(full + rank() * shard_bytes, full,
                                 static_cast<std::size_t>(shard_bytes), ncclInt8, comm, stream);
    });
  });
}

void NcclCommunicator::reduce(cudaStream_t stream, float* full, std::int64_t shard_elements,
                              float* staging) {
  if (world_size() == 1) return;
  reductions_.collective(stream, [&] {
    for (std::int64_t first = 0; first < shard_elements; first += piece_elements_) {
      const std::int64_t elements = std::min(piece_elements_, shard_elements - first);
      reductions_.call([&](ncclComm_t comm) {
        return exchange(comm, stream, full + first, shard_elements, elements, staging);
      });
      sum_in_rank_order(stream, full + rank() * shard_elements + first, staging, piece_elements_,
                        rank(), world_size(), elements);
    }
  });
}

// To every rank the piece of its part, from every rank its piece of ours.
ncclResult_t NcclCommunicator::exchange(ncclComm_t comm, cudaStream_t stream, const float* full,
                                        std::int64_t shard_elements, std::int64_t elements,
                                        float* staging) const {
  const auto count = static_cast<std::size_t>(elements);
  ncclResult_t result = nccl_.ncclGroupStart();
  const auto add = [&](ncclResult_t next) {
    if (result == ncclSuccess && next != ncclInProgress) result = next;
  };
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    add(nccl_.ncclSend(full + peer * shard_elements, count, ncclFloat32, peer, comm, stream));
    add(nccl_.ncclRecv(staging, count, ncclFloat32, peer, comm, stream));
    staging += piece_elements_;
  }
  const ncclResult_t ended = nccl_.ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

}  // namespace strata::comm
