#ifdef STRATA_HAVE_MPI
#include "offload/comm/exchange.h"

#include <algorithm>
#include <span>

#include "kernels/base/annotate.h"
#include "offload/comm/mpi_check.h"

namespace strata::comm {

Lane::Lane(MPI_Comm world, int rank, int world_size)
    : world_(world),
      rank_(rank),
      world_size_(world_size),
      messages_per_round_(2 * static_cast<std::size_t>(world_size - 1)) {
  const std::size_t messages = kRoundsInFlight * messages_per_round_;
  messages_.resize(messages);
  requests_.assign(messages, MPI_REQUEST_NULL);
  completed_.resize(messages);
  statuses_.resize(messages);
}

void Lane::start(Exchange& exchange, std::chrono::nanoseconds now) {
  exchange_ = &exchange;
  posted_rounds_ = 0;
  last_progress_ = now;
}

bool Lane::advance(std::chrono::nanoseconds now) {
  const std::int64_t may_post =
      std::min(exchange_->rounds(), exchange_->released_rounds() + kRoundsInFlight);
  bool moved = posted_rounds_ < may_post;
  while (posted_rounds_ < may_post) post(posted_rounds_++);
  moved |= test();
  std::int64_t completed = exchange_->completed_rounds();
  while (completed < posted_rounds_ && round_complete(completed)) ++completed;
  exchange_->completed_rounds_.store(completed, std::memory_order_release);
  if (moved || completed == posted_rounds_) last_progress_ = now;
  return moved;
}

// Receives first: a message that finds its receive posted needs no copy.
void Lane::post(std::int64_t round) {
  std::size_t index = half_begin(round);
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    const auto piece = exchange_->incoming(peer, round);
    if (piece) post_message({peer, *piece, true}, index++);
  }
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    const auto piece = exchange_->outgoing(peer, round);
    if (piece) post_message({peer, *piece, false}, index++);
  }
}

void Lane::post_message(Message message, std::size_t index) {
  messages_[index] = message;
  const Piece& piece = message.piece;
  const int bytes = static_cast<int>(piece.bytes);
  if (message.incoming) {
    check_mpi(MPI_Irecv(piece.data, bytes, MPI_BYTE, message.peer, exchange_->tag(), world_,
                        &requests_[index]),
              exchange_->name());
  } else {
    annotate_read(piece.data, piece.bytes);
    check_mpi(MPI_Isend(piece.data, bytes, MPI_BYTE, message.peer, exchange_->tag(), world_,
                        &requests_[index]),
              exchange_->name());
  }
}

bool Lane::test() {
  if (requests_.empty()) return false;
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                completed_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, exchange_->name());
  if (count == MPI_UNDEFINED || count == 0) return false;  // nothing posted, or nothing complete
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Message& message = messages_[static_cast<std::size_t>(completed_[i])];
    // MPI sets a status's own code only when Testsome says so.
    check_complete(message, statuses_[i],
                   code == MPI_ERR_IN_STATUS ? statuses_[i].MPI_ERROR : MPI_SUCCESS);
  }
  return true;
}

void Lane::check_complete(const Message& message, const MPI_Status& status, int code) const {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class != MPI_ERR_TRUNCATE) check_mpi(code, exchange_->name());
  if (!message.incoming) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (error_class == MPI_ERR_TRUNCATE || bytes != message.piece.bytes) {
    throw_error<CommError>(
        "rank {} sent another number of bytes in {} than the {} that rank {} expected: start all "
        "ranks with the same program and options",
        message.peer, exchange_->name(), message.piece.bytes, rank_);
  }
  annotate_write(message.piece.data, message.piece.bytes);
}

bool Lane::round_complete(std::int64_t round) const {
  return std::ranges::all_of(std::span(requests_).subspan(half_begin(round), messages_per_round_),
                             [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
}

std::vector<int> Lane::missing_peers() const {
  std::vector<int> peers;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) peers.push_back(messages_[i].peer);
  }
  std::ranges::sort(peers);
  peers.erase(std::ranges::unique(peers).begin(), peers.end());
  return peers;
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI
