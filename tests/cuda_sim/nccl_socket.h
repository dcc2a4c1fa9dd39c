// The connections between ranks of the simulated NCCL, which may be threads or processes of one
// machine: Unix sockets, of names made of the communicator's id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::cuda_sim {

// What a rank does with one of its peers in a group of operations: first its header, by which the
// receiver sees that both mean the same, then the bytes.
struct NcclMessage {
  int peer = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool incoming = false;
  std::uint64_t operation = 0;
};

enum class NcclEnd : std::uint8_t { done, aborted, peer_gone };

class NcclSockets {
 public:
  NcclSockets() = default;
  ~NcclSockets();
  NcclSockets(const NcclSockets&) = delete;
  NcclSockets& operator=(const NcclSockets&) = delete;

  // Returns when every peer is connected, or `aborted` is set.
  NcclEnd connect(const std::string& id, int rank, int ranks, const std::atomic<bool>& aborted);
  // Sends and receives all of them, those of a peer and direction in their order.
  NcclEnd transfer(std::vector<NcclMessage> messages, const std::atomic<bool>& aborted);

 private:
  int rank_ = 0;
  std::vector<int> peers_;  // their sockets; -1: this rank
};

}  // namespace strata::cuda_sim
