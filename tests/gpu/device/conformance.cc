// The conformance suite of devices on a GPU; on the simulated device cuda_device_test runs it.
#include "tests/kernels/device/cuda/cuda_harness.h"

namespace strata::test {
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::Values(&make_cuda_harness));
}  // namespace strata::test
