// Heartbeat: tells a rank that is slow from one that is gone.
//
// Every rank's communication thread sends each peer a beat per period, also while nothing else
// happens, and notes when it last heard from each. A beat tells how far the rank is in collectives
// that its device's library carries out. The last one is a farewell; when every peer's has arrived,
// no message is under way and MPI can be finalised.
//
// Per peer:   answering ──its farewell arrives──▶ left
//
// Times are the communication thread's own (comm_thread.h). Requests are persistent and made at
// construction; later calls allocate nothing and never block. Used by the communication thread
// only.
#pragma once

#include <mpi.h>

#include <chrono>
#include <vector>

#include "offload/comm/device_collectives.h"

namespace strata::comm {

class Heartbeat {
 public:
  // Collective over `world`. Throws CommError.
  Heartbeat(MPI_Comm world, int rank, int world_size, std::chrono::nanoseconds period);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  std::chrono::nanoseconds period() const { return period_; }

  // Takes in what has arrived and sends what is due, a few times per period. Throws CommError.
  void progress(std::chrono::nanoseconds now);

  // How long this peer has not been heard; 0 once it has left.
  std::chrono::nanoseconds silence(int peer, std::chrono::nanoseconds now) const;

  // What the next beats tell, and what the last one of a peer told.
  void tell(const DeviceCollectives::Counts& begun) { begun_ = begun; }
  DeviceCollectives::Counts told(int peer) const;

  // From now on sends the farewell only.
  void begin_farewell() { leaving_ = true; }
  // Every peer has sent its farewell and ours are on their way.
  bool farewell_complete() const;
  // Frees the requests; after the farewell is complete.
  void close();

 private:
  struct Beat {
    std::uint64_t farewell = 0;
    DeviceCollectives::Counts begun{};
  };
  struct Peer {
    int rank = 0;
    std::chrono::nanoseconds heard{0};
    bool left = false;
    bool sending = false;
    bool farewell_sent = false;
    DeviceCollectives::Counts begun{};
  };
  void receive(std::chrono::nanoseconds now);
  void send(Peer& peer, std::size_t index);

  MPI_Comm channel_ = MPI_COMM_NULL;
  std::chrono::nanoseconds period_;
  std::chrono::nanoseconds next_look_{0};
  std::chrono::nanoseconds next_beat_{0};
  bool leaving_ = false;
  std::vector<Peer> peers_;
  DeviceCollectives::Counts begun_{};
  std::vector<Beat> received_;  // one a peer
  std::vector<Beat> sent_;
  std::vector<MPI_Request> requests_;  // a receive per peer, then a send per peer
  std::vector<int> completed_;         // scratch of MPI_Testsome
};

}  // namespace strata::comm
