#ifdef STRATA_HAVE_MPI
#include "offload/comm/heartbeat.h"

#include <algorithm>
#include <span>

#include "offload/comm/mpi_check.h"

namespace strata::comm {
namespace {

constexpr int kTag = 0;

}  // namespace

Heartbeat::Heartbeat(MPI_Comm world, int rank, int world_size, std::chrono::nanoseconds period)
    : period_(period) {
  check_mpi(MPI_Comm_dup(world, &channel_), "MPI_Comm_dup");
  for (int peer = 0; peer < world_size; ++peer) {
    if (peer != rank) peers_.push_back({.rank = peer});
  }
  const std::size_t peers = peers_.size();
  received_.resize(peers);
  sent_.resize(peers);
  requests_.assign(2 * peers, MPI_REQUEST_NULL);
  completed_.assign(2 * peers, 0);
  for (std::size_t i = 0; i < peers; ++i) {
    check_mpi(MPI_Recv_init(&received_[i], sizeof(Beat), MPI_BYTE, peers_[i].rank, kTag, channel_,
                            &requests_[i]),
              "MPI_Recv_init");
    check_mpi(MPI_Send_init(&sent_[i], sizeof(Beat), MPI_BYTE, peers_[i].rank, kTag, channel_,
                            &requests_[peers + i]),
              "MPI_Send_init");
    check_mpi(MPI_Start(&requests_[i]), "heartbeat");
  }
}

void Heartbeat::progress(std::chrono::nanoseconds now) {
  if (now < next_look_ && !leaving_) return;
  next_look_ = now + period_ / 8;
  receive(now);
  const bool due = now >= next_beat_;
  if (due) next_beat_ = now + period_;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (due || leaving_) send(peers_[i], i);
  }
}

void Heartbeat::receive(std::chrono::nanoseconds now) {
  while (!requests_.empty()) {
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           completed_.data(), MPI_STATUSES_IGNORE),
              "heartbeat");
    if (count == MPI_UNDEFINED || count == 0) return;  // nothing is active, or nothing is complete
    for (const int index : std::span(completed_).first(static_cast<std::size_t>(count))) {
      const auto request = static_cast<std::size_t>(index);
      if (request >= peers_.size()) {
        peers_[request - peers_.size()].sending = false;
        continue;
      }
      Peer& peer = peers_[request];
      peer.heard = now;
      peer.left = received_[request].farewell != 0;
      peer.begun = received_[request].begun;
      if (!peer.left) check_mpi(MPI_Start(&requests_[request]), "heartbeat");
    }
  }
}

// A peer that takes nothing gets no second message: its first is still under way.
void Heartbeat::send(Peer& peer, std::size_t index) {
  if (peer.sending || peer.farewell_sent) return;
  sent_[index] = {.farewell = leaving_ ? 1u : 0u, .begun = begun_};
  check_mpi(MPI_Start(&requests_[peers_.size() + index]), "heartbeat");
  peer.sending = true;
  peer.farewell_sent = leaving_;
}

std::chrono::nanoseconds Heartbeat::silence(int peer, std::chrono::nanoseconds now) const {
  const auto found = std::ranges::find(peers_, peer, &Peer::rank);
  if (found == peers_.end() || found->left) return std::chrono::nanoseconds{0};
  return now - found->heard;
}

DeviceCollectives::Counts Heartbeat::told(int peer) const {
  const auto found = std::ranges::find(peers_, peer, &Peer::rank);
  return found == peers_.end() ? begun_ : found->begun;
}

bool Heartbeat::farewell_complete() const {
  return std::ranges::all_of(
      peers_, [](const Peer& peer) { return peer.left && peer.farewell_sent && !peer.sending; });
}

void Heartbeat::close() {
  for (MPI_Request& request : requests_) MPI_Request_free(&request);
  MPI_Comm_free(&channel_);
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI
