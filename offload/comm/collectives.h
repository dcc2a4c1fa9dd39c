// The collectives as exchanges: where each one's pieces lie.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/base/bytes.h"
#include "offload/comm/exchange.h"

namespace strata::comm {

// Part p of `full` belongs to rank p and is `part_bytes` long; a piece is a part of it.
struct Parts {
  std::byte* full = nullptr;
  std::int64_t part_bytes = 0;
  std::int64_t piece_bytes = 0;

  std::int64_t rounds() const { return ceil_div(part_bytes, piece_bytes); }
  Piece piece(int part, std::int64_t round) const {
    const std::int64_t offset = round * piece_bytes;
    return {full + part * part_bytes + offset, std::min(piece_bytes, part_bytes - offset)};
  }
};

// Every rank sends its part, every part is received in its place.
class AllGather final : public Exchange {
 public:
  AllGather(const char* name, int tag, int rank, const Parts& parts)
      : Exchange(name, tag, parts.rounds()), rank_(rank), parts_(parts) {}

  std::optional<Piece> outgoing(int, std::int64_t round) const override {
    return parts_.piece(rank_, round);
  }
  std::optional<Piece> incoming(int peer, std::int64_t round) const override {
    return parts_.piece(peer, round);
  }

 private:
  int rank_;
  Parts parts_;
};

// Every rank sends part p to rank p. What arrives for its own part waits in staging, one piece per
// peer and round in flight, until the thread that sums releases the round.
class ReduceScatter final : public Exchange {
 public:
  ReduceScatter(int tag, int rank, int world_size, const Parts& parts, std::byte* staging)
      : Exchange("reduce-scatter", tag, parts.rounds()),
        rank_(rank),
        world_size_(world_size),
        parts_(parts),
        staging_(staging) {}

  static std::int64_t staging_bytes(int world_size, std::int64_t piece_bytes) {
    return kRoundsInFlight * (world_size - 1) * piece_bytes;
  }

  Piece own(std::int64_t round) const { return parts_.piece(rank_, round); }

  std::optional<Piece> outgoing(int peer, std::int64_t round) const override {
    return parts_.piece(peer, round);
  }
  std::optional<Piece> incoming(int peer, std::int64_t round) const override {
    const int others_before = peer < rank_ ? peer : peer - 1;
    const std::int64_t slot = (round % kRoundsInFlight) * (world_size_ - 1) + others_before;
    return Piece{staging_ + slot * parts_.piece_bytes, own(round).bytes};
  }

  std::int64_t released_rounds() const override {
    return released_rounds_.load(std::memory_order_acquire);
  }
  void release_round() { released_rounds_.fetch_add(1, std::memory_order_release); }

 private:
  int rank_;
  int world_size_;
  Parts parts_;
  std::byte* staging_;
  std::atomic<std::int64_t> released_rounds_{0};
};

// The root sends all of `data` to everybody.
class Broadcast final : public Exchange {
 public:
  Broadcast(int tag, int rank, int root, std::span<std::byte> data, std::int64_t piece_bytes)
      : Exchange("broadcast", tag, ceil_div(std::ssize(data), piece_bytes)),
        rank_(rank),
        root_(root),
        data_{data.data(), std::ssize(data), piece_bytes} {}

  std::optional<Piece> outgoing(int, std::int64_t round) const override {
    if (rank_ != root_) return std::nullopt;
    return data_.piece(0, round);
  }
  std::optional<Piece> incoming(int peer, std::int64_t round) const override {
    if (peer != root_) return std::nullopt;
    return data_.piece(0, round);
  }

 private:
  int rank_;
  int root_;
  Parts data_;
};

// An empty message from everybody to everybody.
class Barrier final : public Exchange {
 public:
  explicit Barrier(int tag) : Exchange("barrier", tag, 1) {}
  std::optional<Piece> outgoing(int, std::int64_t) const override { return Piece{}; }
  std::optional<Piece> incoming(int, std::int64_t) const override { return Piece{}; }
};

}  // namespace strata::comm
