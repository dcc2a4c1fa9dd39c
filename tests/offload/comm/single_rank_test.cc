#include "tests/offload/comm/communicator_conformance.h"

namespace strata::comm {
namespace {

class SingleRank : public testing::Environment {
 public:
  void SetUp() override {
    rank_ = std::make_unique<ConformanceRank>(make_single_rank_communicator(), on_cpu(failure_));
    ConformanceRank::current = rank_.get();
  }
  void TearDown() override { rank_.reset(); }

 private:
  FailureLatch failure_;
  std::unique_ptr<ConformanceRank> rank_;
};

[[maybe_unused]] const auto* const kEnvironment =
    testing::AddGlobalTestEnvironment(std::make_unique<SingleRank>().release());

}  // namespace
}  // namespace strata::comm
