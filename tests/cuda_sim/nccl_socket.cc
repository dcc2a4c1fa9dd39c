#include "cuda_sim/nccl_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "cuda_sim/report.h"

namespace strata::cuda_sim {
namespace {

constexpr int kPollMs = 5;  // between looks at an abort

struct Header {
  std::uint64_t operation;
  std::int64_t bytes;
};

// In no file system.
sockaddr_un address_of(const std::string& id, int rank, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("strata-nccl-{}-{}", id, rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

int new_socket() {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) report("socket: {}", std::strerror(errno));
  return socket;
}

bool ready(int socket, short events) {
  pollfd entry{.fd = socket, .events = events, .revents = 0};
  return ::poll(&entry, 1, kPollMs) > 0;
}

// The messages of one peer and direction, one after the other.
struct Lane {
  int socket = -1;
  bool incoming = false;
  std::vector<NcclMessage> messages;
  std::size_t current = 0;
  std::int64_t moved_bytes = 0;  // of the current one, its header included
  Header header{};

  bool done() const { return current == messages.size(); }

  // False: the peer is gone.
  bool advance(int rank) {
    while (!done()) {
      const NcclMessage& message = messages[current];
      if (moved_bytes == 0 && !incoming) header = {message.operation, message.bytes};
      constexpr std::int64_t kHeader = sizeof(Header);
      const bool in_header = moved_bytes < kHeader;
      std::byte* const data = in_header ? reinterpret_cast<std::byte*>(&header) + moved_bytes
                                        : message.data + (moved_bytes - kHeader);
      const auto left =
          static_cast<std::size_t>((in_header ? kHeader : kHeader + message.bytes) - moved_bytes);
      const ssize_t moved = incoming ? ::recv(socket, data, left, MSG_DONTWAIT)
                                     : ::send(socket, data, left, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (moved <= 0) return false;
      moved_bytes += moved;
      if (incoming && moved_bytes == kHeader) check_header(message, rank);
      if (moved_bytes == kHeader + message.bytes) {
        moved_bytes = 0;
        ++current;
      }
    }
    return true;
  }

  void check_header(const NcclMessage& message, int rank) const {
    if (header.operation == message.operation && header.bytes == message.bytes) return;
    report(
        "rank {} sends {} bytes in operation {} of the communicator, where rank {} expects {} in "
        "operation {}: hardware would hang or corrupt memory",
        message.peer, header.bytes, header.operation, rank, message.bytes, message.operation);
  }
};

}  // namespace

NcclSockets::~NcclSockets() {
  for (const int socket : peers_) {
    if (socket >= 0) ::close(socket);
  }
}

// Each rank connects to those below it, and tells its number.
NcclEnd NcclSockets::connect(const std::string& id, int rank, int ranks,
                             const std::atomic<bool>& aborted) {
  rank_ = rank;
  peers_.assign(static_cast<std::size_t>(ranks), -1);
  socklen_t bytes = 0;
  sockaddr_un address = address_of(id, rank, bytes);
  const int listener = new_socket();
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(listener, ranks) != 0) {
    report("rank {} is there twice: {}", rank, std::strerror(errno));
  }
  for (int peer = 0; peer < rank && !aborted; ++peer) {
    address = address_of(id, peer, bytes);
    const int socket = peers_[static_cast<std::size_t>(peer)] = new_socket();
    while (!aborted && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
    if (!aborted && ::send(socket, &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) break;
  }
  for (int above = rank + 1; above < ranks && !aborted;) {
    if (!ready(listener, POLLIN)) continue;
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    int peer = -1;
    if (::recv(socket, &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer)) {
      ::close(socket);
      ::close(listener);
      return NcclEnd::peer_gone;
    }
    peers_[static_cast<std::size_t>(peer)] = socket;
    ++above;
  }
  ::close(listener);
  return aborted ? NcclEnd::aborted : NcclEnd::done;
}

NcclEnd NcclSockets::transfer(std::vector<NcclMessage> messages, const std::atomic<bool>& aborted) {
  std::vector<Lane> lanes(2 * peers_.size());
  for (const NcclMessage& message : messages) {
    const auto peer = static_cast<std::size_t>(message.peer);
    Lane& lane = lanes[2 * peer + (message.incoming ? 1 : 0)];
    lane.socket = peers_[peer];
    lane.incoming = message.incoming;
    lane.messages.push_back(message);
  }
  std::vector<pollfd> waiting;
  while (!aborted) {
    waiting.clear();
    for (Lane& lane : lanes) {
      if (lane.done()) continue;
      if (!lane.advance(rank_)) return NcclEnd::peer_gone;
      const short events = lane.incoming ? POLLIN : POLLOUT;
      if (!lane.done()) waiting.push_back({.fd = lane.socket, .events = events, .revents = 0});
    }
    if (waiting.empty()) return NcclEnd::done;
    ::poll(waiting.data(), waiting.size(), kPollMs);
  }
  return NcclEnd::aborted;
}

}  // namespace strata::cuda_sim
