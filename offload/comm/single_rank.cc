#include <algorithm>

#include "kernels/base/error.h"
#include "offload/comm/communicator.h"

namespace strata::comm {
namespace {

// With one rank every collective is done before it starts: its own part is the whole.
class SingleRankCommunicator final : public Communicator {
 public:
  const Topology& topology() const override { return topology_; }
  StagingBytes staging_bytes() const override { return {}; }
  DeviceBuffer attach(Device&) override { return {}; }
  void all_gather(Stream&, void*, std::int64_t) override {}
  void reduce_scatter(Stream&, float*, std::int64_t) override {}
  void barrier() override {}
  void broadcast(std::span<std::byte>, int root) override { STRATA_CHECK(root == 0); }
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
    STRATA_CHECK(all.size() == mine.size(), "{} bytes into {}", mine.size(), all.size());
    std::ranges::copy(mine, all.begin());
  }
  void abort(int) noexcept override {}

 private:
  Topology topology_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_rank_communicator() {
  return std::make_unique<SingleRankCommunicator>();
}

}  // namespace strata::comm
