#include "offload/comm/cuda/nccl_comm.h"

#include <thread>
#include <utility>

#include "kernels/base/error.h"

namespace strata::comm {
namespace {

// NCCL begins a call on a thread of its own, which takes some 20 us.
constexpr std::chrono::microseconds kLook{20};
// The heartbeat bounds how long ranks wait for each other to end.
constexpr std::chrono::hours kNoTimeout{24 * 365};
// So many blocks of a GPU at most are either kind's: both fit beside each other on small ones, and
// with compute on large ones. NCCL's buffers are as many, too. NCCL_MAX_CTAS overrides it.
constexpr int kBlocksMax = 8;

}  // namespace

NcclComm::NcclComm(const Nccl& nccl, std::mutex& calls,
                   std::shared_ptr<DeviceCollectives> collectives, std::size_t kind,
                   std::chrono::milliseconds timeout, FailureLatch& failure)
    : nccl_(nccl),
      calls_(calls),
      collectives_(std::move(collectives)),
      name_(DeviceCollectives::kKinds[kind]),
      timeout_(timeout),
      failure_(failure),
      marks_(collectives_->kinds[kind], failure) {}

void NcclComm::start(const ncclUniqueId& id, int rank, int ranks,
                     std::chrono::milliseconds timeout) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kBlocksMax;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    result = nccl_.ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
  }
  settle(result, timeout);
}

void NcclComm::finish() {
  settle(locked(nccl_.ncclCommFinalize), kNoTimeout);
  const std::lock_guard lock(mutex_);
  (void)nccl_.ncclCommDestroy(std::exchange(comm_, nullptr));
}

ncclResult_t NcclComm::state() {
  return locked([&](ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = nccl_.ncclCommGetAsyncError(comm, &state);
    return result == ncclSuccess ? state : result;
  });
}

void NcclComm::settle(ncclResult_t result, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (result != ncclSuccess) {
    failure_.check();
    if (result != ncclInProgress) tell(result);
    if (Clock::now() > deadline) {
      throw_error<CommError>(
          "NCCL was not ready for {} within {:.3g} s: see what NCCL_DEBUG=INFO says", name_,
          std::chrono::duration<double>(timeout).count());
    }
    std::this_thread::sleep_for(kLook);
    if (result == ncclInProgress) result = state();
  }
}

void NcclComm::look() {
  marks_.look();
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
  }
  const ncclResult_t met = state();
  if (met != ncclSuccess && met != ncclInProgress) tell(met);
}

void NcclComm::tell(ncclResult_t result) {
  const char* const last = nccl_.ncclGetLastError(nullptr);
  collectives_->fail(fmt::format("{} ({}); NCCL_DEBUG=INFO says more",
                                 nccl_.ncclGetErrorString(result),
                                 last == nullptr || *last == 0 ? "no details" : last));
}

ncclComm_t NcclComm::release() {
  const std::lock_guard lock(mutex_);
  return std::exchange(comm_, nullptr);
}

}  // namespace strata::comm
