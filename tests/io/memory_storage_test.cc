#include "io/fault_storage.h"
#include "tests/io/storage_conformance.h"

namespace strata::io {
namespace {

const auto factories = testing::Values(
    StorageFactory{"memory", [] { return make_memory_storage(kConformanceCapacityBytes); }});

INSTANTIATE_TEST_SUITE_P(Memory, StorageConformance, factories, storage_name);
INSTANTIATE_TEST_SUITE_P(Memory, StorageConformanceDeathTest, factories, storage_name);

}  // namespace
}  // namespace strata::io
