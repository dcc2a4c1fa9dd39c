// The functions of NCCL that the project calls, between ranks that are threads or processes of one
// machine. What the real one answers with a hang or with wrong data is reported here: ranks that
// mean different operations, memory that is no buffer, use of a communicator that is gone or whose
// last call is still in progress.
//
// Calls do not block: their work is on its stream only once ncclCommGetAsyncError() was asked
// twice, so whoever does not wait for that meets his own mistake.
#include "cuda_sim/nccl.h"

#include <nccl.h>

#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "cuda_sim/faults.h"
#include "cuda_sim/memory.h"
#include "cuda_sim/nccl_socket.h"
#include "cuda_sim/stream.h"

using namespace strata::cuda_sim;

namespace strata::cuda_sim {
namespace {

constexpr std::int64_t kBufferBytes = 1 << 20;  // of a communicator, on the device
constexpr int kLooksInProgress = 2;

// What the stream's thread uses, which may be there for longer than the communicator.
struct NcclState {
  NcclSockets sockets;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::mutex running;  // one group at a time
};

struct NcclOperation {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<NcclMessage> messages;  // device addresses
};

thread_local int group_depth = 0;
thread_local std::vector<NcclOperation> group;
thread_local std::vector<ncclComm_t> aborted_in_group;

std::mutex comms_mutex;
std::set<ncclComm_t> comms;  // alive

}  // namespace
}  // namespace strata::cuda_sim

struct ncclComm {
  int rank = 0;
  int ranks = 1;
  std::shared_ptr<NcclState> state = std::make_shared<NcclState>();
  void* buffers = nullptr;
  std::thread connecting;

  std::mutex mutex;
  bool connected = false;
  std::vector<NcclOperation> pending;  // called, and not yet on their stream
  bool finalizing = false;
  int looks_left = 0;  // until what is pending begins, or finalizing ends
  std::uint64_t enqueued_groups = 0;
};

namespace strata::cuda_sim {
namespace {

void require_alive(ncclComm_t comm, const char* function) {
  const std::lock_guard lock(comms_mutex);
  if (!comms.contains(comm)) report("{} of a communicator that is gone", function);
}

// On the stream's thread. A kernel of NCCL waits for its peers, or for an abort.
void run(NcclState& state, std::vector<NcclMessage> messages) {
  const std::lock_guard lock(state.running);
  if (state.aborted) return;
  for (NcclMessage& message : messages) {
    if (message.bytes == 0) continue;
    message.data = static_cast<std::byte*>(checked_range(
        message.data, message.bytes, message.incoming ? Access::write : Access::read));
  }
  if (const int fault = take_call_fault(kNcclWork)) {
    state.error = static_cast<ncclResult_t>(fault);
  } else if (state.sockets.transfer(std::move(messages), state.aborted) == NcclEnd::peer_gone) {
    state.error = ncclRemoteError;
  }
  while (state.error != ncclSuccess && !state.aborted) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void begin_pending(ncclComm& comm) {
  std::vector<NcclMessage> messages;
  cudaStream_t stream = nullptr;
  for (const NcclOperation& operation : comm.pending) {
    if (stream != nullptr && stream != operation.stream) report("a group of NCCL on two streams");
    stream = operation.stream;
    for (NcclMessage message : operation.messages) {
      message.operation = comm.enqueued_groups;
      messages.push_back(message);
    }
  }
  comm.pending.clear();
  ++comm.enqueued_groups;
  enqueue(stream, "NCCL", [state = comm.state, messages] { run(*state, messages); });
}

ncclResult_t end_group() {
  std::vector<NcclOperation> operations = std::exchange(group, {});
  if (operations.empty()) return ncclSuccess;
  ncclComm& comm = *operations.front().comm;
  const std::lock_guard lock(comm.mutex);
  for (const NcclOperation& operation : operations) {
    if (operation.comm != &comm) report("a group of NCCL on two communicators");
  }
  comm.pending = std::move(operations);
  comm.looks_left = kLooksInProgress;
  return ncclInProgress;
}

// `function` adds messages to an operation.
template <typename Function>
ncclResult_t operation(const char* name, ncclComm_t comm, cudaStream_t stream, Function function) {
  require_alive(comm, name);
  if (const int fault = take_call_fault(name)) return static_cast<ncclResult_t>(fault);
  {
    const std::lock_guard lock(comm->mutex);
    if (!comm->connected || !comm->pending.empty()) {
      report("{} while the communicator's last call is in progress", name);
    }
  }
  NcclOperation added{comm, stream, {}};
  function(added.messages);
  group.push_back(std::move(added));
  return group_depth > 0 ? ncclSuccess : end_group();
}

std::int64_t bytes_of(std::size_t count, ncclDataType_t type) {
  if (type != ncclInt8 && type != ncclFloat32) report("NCCL type {}", static_cast<int>(type));
  return static_cast<std::int64_t>(count) * (type == ncclInt8 ? 1 : 4);
}

std::byte* address(const void* data) { return static_cast<std::byte*>(const_cast<void*>(data)); }

void connect(ncclComm& comm, const std::string& id) {
  const NcclEnd end = comm.state->sockets.connect(id, comm.rank, comm.ranks, comm.state->aborted);
  if (end == NcclEnd::peer_gone) comm.state->error = ncclRemoteError;
  const std::lock_guard lock(comm.mutex);
  comm.connected = true;
}

// On a GPU an abort may wait for all that it does, also for another communicator's work, which
// waits for a peer.
void require_others_idle(ncclComm_t comm) {
  const std::lock_guard lock(comms_mutex);
  for (const ncclComm_t other : comms) {
    if (other == comm || other->rank != comm->rank) continue;
    const std::unique_lock idle(other->state->running, std::try_to_lock);
    if (!idle) report("ncclCommAbort alone while another communicator's work may wait for a peer");
  }
}

ncclResult_t end(ncclComm_t comm, const char* function) {
  require_alive(comm, function);
  {
    const std::lock_guard lock(comms_mutex);
    comms.erase(comm);
  }
  const std::shared_ptr<NcclState> state = comm->state;  // its lock goes last
  state->aborted = true;
  comm->connecting.join();
  // What runs for it ends.
  const std::lock_guard lock(state->running);
  free(comm->buffers);
  delete comm;
  return ncclSuccess;
}

}  // namespace
}  // namespace strata::cuda_sim

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const int fault = take_call_fault("ncclGetUniqueId")) return static_cast<ncclResult_t>(fault);
  std::random_device random;
  const std::string text = fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
  *id = {};
  text.copy(id->internal, text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const int fault = take_call_fault("ncclCommInitRankConfig")) {
    return static_cast<ncclResult_t>(fault);
  }
  if (config == nullptr || config->blocking != 0) report("a communicator of NCCL that blocks");
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->ranks = ranks;
  made->buffers = allocate(kBufferBytes);
  if (made->buffers == nullptr) return ncclUnhandledCudaError;
  ncclComm& its = *made;
  its.connecting = std::thread([&its, text = std::string(id.internal)] { connect(its, text); });
  *comm = made.release();
  const std::lock_guard lock(comms_mutex);
  comms.insert(*comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  require_alive(comm, "ncclCommGetAsyncError");
  if (const int fault = take_call_fault("ncclCommGetAsyncError")) {
    return static_cast<ncclResult_t>(fault);
  }
  const std::lock_guard lock(comm->mutex);
  *error = comm->state->error;
  if (*error != ncclSuccess) return ncclSuccess;
  if (comm->looks_left > 0 && --comm->looks_left == 0 && !comm->finalizing) begin_pending(*comm);
  if (!comm->connected || comm->looks_left > 0) *error = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  require_alive(comm, "ncclCommFinalize");
  if (const int fault = take_call_fault("ncclCommFinalize"))
    return static_cast<ncclResult_t>(fault);
  const std::lock_guard lock(comm->mutex);
  if (comm->looks_left > 0) report("ncclCommFinalize while the last call is in progress");
  comm->finalizing = true;
  comm->looks_left = kLooksInProgress;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end(comm, "ncclCommDestroy"); }
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  require_alive(comm, "ncclCommAbort");
  if (group_depth == 0) {
    require_others_idle(comm);
    return end(comm, "ncclCommAbort");
  }
  comm->state->aborted = true;
  aborted_in_group.push_back(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  for (const ncclComm_t comm : std::exchange(aborted_in_group, {})) end(comm, "ncclCommAbort");
  if (const int fault = take_call_fault("ncclGroupEnd")) {
    group.clear();
    return static_cast<ncclResult_t>(fault);
  }
  return end_group();
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclAllGather", comm, stream, [&](std::vector<NcclMessage>& messages) {
    const std::int64_t bytes = bytes_of(count, type);
    if (address(from) != address(to) + comm->rank * bytes) report("a gather that is not in place");
    for (int peer = 0; peer < comm->ranks; ++peer) {
      if (peer == comm->rank) continue;
      messages.push_back({.peer = peer, .data = address(from), .bytes = bytes});
      messages.push_back(
          {.peer = peer, .data = address(to) + peer * bytes, .bytes = bytes, .incoming = true});
    }
  });
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return operation("ncclSend", comm, stream, [&](std::vector<NcclMessage>& messages) {
    messages.push_back({.peer = peer, .data = address(data), .bytes = bytes_of(count, type)});
  });
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return operation("ncclRecv", comm, stream, [&](std::vector<NcclMessage>& messages) {
    messages.push_back(
        {.peer = peer, .data = address(data), .bytes = bytes_of(count, type), .incoming = true});
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unhandled system error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }
