// What scripts/bench_streaming compares: the same bytes move with the update and without.
#include "tests/engine/step/streaming_machine.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

TEST(Streaming, FrozenElementsMoveTheSameBytesAndStay) {
  const test::TemporaryFolder folder;
  StreamingMachine machine(streaming_input(50000, 4096, MomentFormat::int8), folder.path(), 2);
  const auto before = machine.weights(0);
  machine.move();
  EXPECT_EQ(machine.weights(0), before);
  machine.update();
  EXPECT_NE(machine.weights(0), before);
  EXPECT_GT(machine.moved().bytes(offload::Link::nvme_read), 0);
  EXPECT_EQ(machine.moved(), machine.updated());
}

}  // namespace
}  // namespace strata::engine
