// Exchange: one collective as rounds of point-to-point messages, and Lane, which carries it out.
//
// In round r every rank sends each peer at most one piece and receives at most one from it. Two
// rounds are under way at once. The messages of an exchange share a tag that no other one under
// way has and that all ranks agree on; so several may be under way together, begun in any order.
// Bounded pieces keep staging small, let shards pass 2 GiB, and tell whose data is missing.
//
// An Exchange lives with the thread that waits for it; the communication thread uses it from
// CommThread::submit() until it is finished. Counters are the only state both touch.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata::comm {

inline constexpr std::int64_t kRoundsInFlight = 2;

struct Piece {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

class Exchange {
 public:
  // `name` is a literal, for errors.
  Exchange(const char* name, int tag, std::int64_t rounds)
      : name_(name), tag_(tag), rounds_(rounds) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  const char* name() const { return name_; }
  int tag() const { return tag_; }
  std::int64_t rounds() const { return rounds_; }

  // The piece that goes to, or comes from, this peer in this round; none: no message.
  virtual std::optional<Piece> outgoing(int peer, std::int64_t round) const = 0;
  virtual std::optional<Piece> incoming(int peer, std::int64_t round) const = 0;

  // Rounds whose memory may be used again; round r + kRoundsInFlight starts once r is released.
  virtual std::int64_t released_rounds() const { return completed_rounds(); }

  std::int64_t completed_rounds() const {
    return completed_rounds_.load(std::memory_order_acquire);
  }

 private:
  friend class CommThread;
  friend class Lane;
  enum class State { submitted, finished, dropped };

  const char* name_;
  int tag_;
  std::int64_t rounds_;
  std::atomic<std::int64_t> completed_rounds_{0};  // written by the communication thread
  State state_ = State::submitted;                 // under CommThread's mutex
};

// Posts and tests the messages of one exchange at a time. Communication thread only; allocates at
// construction only.
class Lane {
 public:
  // `world` must outlive the lane.
  Lane(MPI_Comm world, int rank, int world_size);

  Exchange* exchange() const { return exchange_; }
  void start(Exchange& exchange, std::chrono::nanoseconds now);

  // Posts what may be posted and tests what is under way. True when a message completed or a round
  // was posted. Throws CommError on a failed message or one of an unexpected size.
  bool advance(std::chrono::nanoseconds now);

  bool complete() const { return exchange_->completed_rounds() == exchange_->rounds(); }
  void clear() { exchange_ = nullptr; }

  // When a message last completed (or nothing was awaited from a peer).
  std::chrono::nanoseconds last_progress() const { return last_progress_; }
  // Peers with a message of this exchange outstanding, ascending.
  std::vector<int> missing_peers() const;

 private:
  struct Message {
    int peer = 0;
    Piece piece;
    bool incoming = false;
  };
  // Index of the first message of a round's half: kRoundsInFlight rounds of receives and sends.
  std::size_t half_begin(std::int64_t round) const {
    return static_cast<std::size_t>(round % kRoundsInFlight) * messages_per_round_;
  }
  void post(std::int64_t round);
  void post_message(Message message, std::size_t index);
  bool test();
  void check_complete(const Message& message, const MPI_Status& status, int code) const;
  bool round_complete(std::int64_t round) const;

  MPI_Comm world_;
  int rank_;
  int world_size_;
  std::size_t messages_per_round_;
  std::vector<Message> messages_;
  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL: not posted, or complete
  std::vector<int> completed_;         // scratch of MPI_Testsome
  std::vector<MPI_Status> statuses_;
  Exchange* exchange_ = nullptr;
  std::int64_t posted_rounds_ = 0;
  std::chrono::nanoseconds last_progress_{0};
};

}  // namespace strata::comm
