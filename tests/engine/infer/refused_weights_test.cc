// Weights that are refused while they are loaded end what is being made in order, whatever its
// compute stream has to do at that moment: no crash, and all memory given back.
#include <gtest/gtest.h>

#include <string>

#include "engine/infer/inference.h"
#include "engine/step/trainer.h"
#include "kernels/base/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::Purpose;

class Refusal final : public engine::StateFiller {
 public:
  void fill(offload::StateStore&, engine::StateAccess&, AlignedSpan) override {
    throw FormatError("refused");
  }
};

// Rotary tables are uploaded, and with a prompt the cache is cleared, before the weights come.
template <typename Made>
void expect_to_end_in_order(Purpose purpose) {
  const TemporaryFolder folder;
  write_text(folder.path("text.txt"), 4000);
  engine::Options options = small_run(
      folder, "llama:layers=2,hidden=48,heads=6,kv-heads=2,intermediate=80,context=512", 32 * kMiB);
  options.prompt = purpose == Purpose::inference ? "a" : "";
  options.max_tokens = 100;
  options.threads = 2;
  const auto comm = comm::make_single_rank_communicator();
  FailureLatch failure;
  const engine::RunSetup setup = engine::make_run_setup(
      options, comm->topology(), comm->staging_bytes(), offload::kShardAlignmentElements, purpose);
  engine::Session session(setup, *comm, failure);
  const engine::TrainerParts whole = session.trainer_parts();
  const std::int64_t device_bytes = session.device().device_budget().held_bytes();
  const std::int64_t host_bytes = session.device().host_budget().held_bytes();
  for (int i = 0; i < 30; ++i) {
    Refusal filler;
    FailureLatch ended;  // by the refusal
    const engine::TrainerParts parts{whole.device,  whole.workers, whole.comm, ended,
                                     whole.storage, whole.tracer,  &filler};
    EXPECT_EQ(error_text<FormatError>([&] { Made(setup, parts); }), "refused");
    EXPECT_TRUE(ended.failed());
  }
  EXPECT_EQ(session.device().device_budget().held_bytes(), device_bytes);
  EXPECT_EQ(session.device().host_budget().held_bytes(), host_bytes);
}

TEST(RefusedWeights, EndAnInferenceInOrder) {
  expect_to_end_in_order<engine::Inference>(Purpose::inference);
}

TEST(RefusedWeights, EndATrainerInOrder) {
  expect_to_end_in_order<engine::Trainer>(Purpose::training);
}

}  // namespace
}  // namespace strata::test
