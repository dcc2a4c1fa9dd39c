#ifdef STRATA_HAVE_MPI
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/collectives.h"
#include "offload/comm/comm_thread.h"
#include "offload/comm/communicator.h"
#include "offload/comm/rank_sum.h"

namespace strata::comm {
namespace {

// Collectives of a kind are numbered as they are enqueued, the same on all ranks; the tag of a
// collective's messages is made of both. MPI guarantees 32,768 tags.
enum class Kind : std::uint8_t { all_gather, reduce_scatter, host };
constexpr int kKinds = 3;
constexpr int kTagsPerKind = 32768 / kKinds;

// Collectives on a stream block that stream's thread, and nobody else, until the communication
// thread has carried them out. The sum of a reduce-scatter runs on the stream's thread (with the
// workers), while the next round is under way.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiOptions& options, FailureLatch& failure)
      : piece_bytes_(options.piece_bytes),
        failure_(failure),
        exceptions_before_(std::uncaught_exceptions()) {
    STRATA_CHECK(piece_bytes_ > 0 && piece_bytes_ <= kGiB && piece_bytes_ % 4 == 0,
                 "pieces of {} bytes", piece_bytes_);
    thread_ = CommThread::start(options.timeout, failure);
    terms_.resize(static_cast<std::size_t>(world_size()));
  }

  // A rank that unwinds has failed, though nobody may have told the latch.
  ~MpiCommunicator() override {
    const bool failed = failure_.failed() || std::uncaught_exceptions() > exceptions_before_;
    thread_->leave(failed ? CommThread::Leave::alone : CommThread::Leave::together);
  }

  const Topology& topology() const override { return thread_->topology(); }

  StagingBytes staging_bytes() const override {
    const std::int64_t bytes = ReduceScatter::staging_bytes(world_size(), piece_bytes_);
    return {.device = round_up(bytes, Device::kAlignmentBytes), .host = 0};
  }
  DeviceBuffer attach(Device& device) override {
    const std::int64_t bytes = staging_bytes().device;
    if (bytes == 0) return {};
    DeviceBuffer staging = device.allocate("collective staging", bytes);
    staging_ = staging.data();
    return staging;
  }

  void all_gather(Stream& stream, void* full, std::int64_t shard_bytes) override;
  void reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) override;
  void barrier() override;
  void broadcast(std::span<std::byte> data, int root) override;
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void abort(int exit_code) noexcept override { thread_->abort(exit_code); }
  void watch(std::shared_ptr<const DeviceCollectives> collectives) override {
    thread_->watch(std::move(collectives));
  }

 private:
  int next_tag(Kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    const std::uint64_t number = enqueued_[index].fetch_add(1, std::memory_order_relaxed);
    return static_cast<int>(index * kTagsPerKind + number % kTagsPerKind);
  }
  void run(Exchange& exchange) {
    thread_->submit(exchange);
    thread_->await_finish(exchange);
  }
  void reduce_scatter_now(CpuDevice& device, int tag, const Parts& parts);
  void sum_round(CpuDevice& device, const ReduceScatter& exchange, std::int64_t round);

  const std::int64_t piece_bytes_;
  FailureLatch& failure_;
  const int exceptions_before_;
  std::shared_ptr<CommThread> thread_;
  std::array<std::atomic<std::uint64_t>, kKinds> enqueued_{};
  std::byte* staging_ = nullptr;
  const Stream* reducing_stream_ = nullptr;
  std::vector<const float*> terms_;
};

void MpiCommunicator::all_gather(Stream& stream, void* full, std::int64_t shard_bytes) {
  const Parts parts{static_cast<std::byte*>(full), shard_bytes, piece_bytes_};
  as_cpu(stream).launch("all_gather", [this, tag = next_tag(Kind::all_gather), parts](CpuDevice&) {
    AllGather exchange("all-gather", tag, rank(), parts);
    run(exchange);
  });
}

void MpiCommunicator::reduce_scatter(Stream& stream, float* full, std::int64_t shard_elements) {
  STRATA_CHECK(world_size() == 1 || staging_ != nullptr, "reduce_scatter before attach");
  STRATA_CHECK(reducing_stream_ == nullptr || reducing_stream_ == &stream,
               "all reduce-scatters go on one stream");
  reducing_stream_ = &stream;
  const Parts parts{reinterpret_cast<std::byte*>(full),
                    shard_elements * std::int64_t{sizeof(float)}, piece_bytes_};
  as_cpu(stream).launch("reduce_scatter",
                        [this, tag = next_tag(Kind::reduce_scatter), parts](CpuDevice& device) {
                          reduce_scatter_now(device, tag, parts);
                        });
}

void MpiCommunicator::reduce_scatter_now(CpuDevice& device, int tag, const Parts& parts) {
  ReduceScatter exchange(tag, rank(), world_size(), parts, staging_);
  thread_->submit(exchange);
  for (std::int64_t round = 0; round < exchange.rounds(); ++round) {
    thread_->await_round(exchange, round);
    sum_round(device, exchange, round);
    exchange.release_round();
    thread_->wake();
  }
  thread_->await_finish(exchange);
}

void MpiCommunicator::sum_round(CpuDevice& device, const ReduceScatter& exchange,
                                std::int64_t round) {
  const Piece own = exchange.own(round);
  auto* destination = reinterpret_cast<float*>(own.data);
  for (int peer = 0; peer < world_size(); ++peer) {
    terms_[static_cast<std::size_t>(peer)] =
        peer == rank() ? destination
                       : reinterpret_cast<const float*>(exchange.incoming(peer, round)->data);
  }
  sum_in_rank_order(device.workers(), destination, terms_, own.bytes / std::int64_t{sizeof(float)});
}

void MpiCommunicator::barrier() {
  Barrier exchange(next_tag(Kind::host));
  run(exchange);
}

void MpiCommunicator::broadcast(std::span<std::byte> data, int root) {
  STRATA_CHECK(root >= 0 && root < world_size(), "root {}", root);
  Broadcast exchange(next_tag(Kind::host), rank(), root, data, piece_bytes_);
  run(exchange);
}

void MpiCommunicator::all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) {
  STRATA_CHECK(std::ssize(all) == std::ssize(mine) * world_size(), "{} bytes of {} ranks into {}",
               mine.size(), world_size(), all.size());
  std::ranges::copy(mine, all.begin() + std::ssize(mine) * rank());
  AllGather exchange("all-gather on the host", next_tag(Kind::host), rank(),
                     {all.data(), std::ssize(mine), piece_bytes_});
  run(exchange);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options,
                                                    FailureLatch& failure) {
  return std::make_unique<MpiCommunicator>(options, failure);
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI
