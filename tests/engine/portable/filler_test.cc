// Any number of ranks begins with what any other number left, bit for bit.
#include "engine/portable/filler.h"

#include <filesystem>

#include "kernels/base/failure_latch.h"
#include "kernels/device/cpu_device.h"
#include "tests/engine/portable/portable_machine.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {
namespace {

using offload::StateDtypes;
using test::error_text;
using test::mentions;

constexpr StateDtypes kBf16{Dtype::bf16, Dtype::f32, MomentFormat::f32, 2};
constexpr StateDtypes kF32{Dtype::f32, Dtype::f32, MomentFormat::f32, 2};

store::Manifest manifest_of(StateDtypes dtypes, int world_size = 1) {
  return store::make_manifest(plan_of(dtypes, world_size, offload::Durability::none),
                              small_parameters());
}

// Fills every rank of a run of today and compares each block.
void expect_filled(const std::string& folder, StateDtypes dtypes, int world_size) {
  const offload::Plan plan = plan_of(dtypes, world_size, offload::Durability::none);
  const store::Manifest manifest = manifest_of(dtypes, world_size);
  FailureLatch failure;
  WorkerSet workers(1);
  for (int rank = 0; rank < world_size; ++rank) {
    Budget host("host memory", 16 * kMiB);
    CpuDevice device({8 * kMiB, -1}, host, workers, failure, nullptr);
    offload::StateStore store(plan, device, nullptr, workers);
    StateAccess access(store, device, {});
    PortableFiller filler(folder, manifest, rank);
    EXPECT_EQ(filler.origin().step, 7);
    filler.fill(store, access, {});
    const BlockContents expected(plan, rank, Gaps::zero);
    for (int unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
      for (const StateKind kind : offload::kLastingKinds) {
        const std::int64_t shard = plan.shard_bytes(store.unit(unit), kind);
        std::int64_t offset = 0;
        for (std::int64_t block = 0; offset < shard; ++block) {
          const std::vector<std::byte> wanted = expected.block(unit, kind, block);
          const std::byte* const found = store.host(unit, kind).data() + offset;
          ASSERT_EQ(std::memcmp(found, wanted.data(), wanted.size()), 0)
              << "rank " << rank << " of " << world_size << ", unit " << unit << ", "
              << offload::name_of(kind) << ", block " << block;
          offset += std::ssize(wanted);
        }
      }
    }
  }
}

class PortableRoundTrip : public ::testing::TestWithParam<StateDtypes> {};

TEST_P(PortableRoundTrip, AnyNumberOfRanksIsFilledFromAnyOther) {
  const test::TemporaryFolder folder;
  for (const int old_ranks : {1, 3}) {
    const std::string path = folder.path(std::to_string(old_ranks));
    StoredModel(GetParam(), old_ranks).export_to(path, {.file_bytes_max = 100'000});
    for (const int ranks : {1, 2, 3}) expect_filled(path, GetParam(), ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, PortableRoundTrip,
    ::testing::Values(kBf16, kF32, StateDtypes{Dtype::bf16, Dtype::f32, MomentFormat::int8, 2},
                      StateDtypes{Dtype::f32, Dtype::f32, MomentFormat::int8, 1},
                      StateDtypes{Dtype::bf16, Dtype::f32, MomentFormat::bf16, 1}));

TEST(PortableFiller, ThePrecisionOfTheWorkingWeightsMayChange) {
  const test::TemporaryFolder folder;
  StoredModel(kF32, 2).export_to(folder.path("f32"), {});
  expect_filled(folder.path("f32"), kBf16, 1);
  StoredModel(kBf16, 2).export_to(folder.path("bf16"), {});
  expect_filled(folder.path("bf16"), kF32, 1);
}

TEST(PortableFiller, TheSnapshotComesBack) {
  const test::TemporaryFolder folder;
  const StoredModel model(kBf16, 2);
  model.export_to(folder.path("p"), {});
  const PortableFiller filler(folder.path("p"), manifest_of(kBf16), 0);
  EXPECT_EQ(filler.origin().snapshot, model.origin.snapshot);
  EXPECT_EQ(filler.origin().world_size, 2);
  EXPECT_EQ(filler.origin().options, model.origin.options);
  EXPECT_EQ(filler.origin().arithmetic, model.origin.arithmetic);
}

TEST(PortableFiller, WhatDoesNotFitTheRunIsRefusedByName) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("p");
  StoredModel(kBf16, 1).export_to(path, {});
  const auto refusal = [&](const store::Manifest& manifest) {
    return error_text<ConfigError>([&] { PortableFiller(path, manifest, 0); });
  };
  EXPECT_TRUE(mentions(refusal(manifest_of({Dtype::bf16, Dtype::f32, MomentFormat::int8, 2})),
                       "its moments are f32, and --moments is int8"));
  EXPECT_TRUE(mentions(refusal(manifest_of({Dtype::bf16, Dtype::f32, MomentFormat::f32, 1})),
                       "keeps 2 moments"));
  store::Manifest manifest = manifest_of(kBf16);
  manifest.units[3].parameters[0].columns = 64;
  EXPECT_TRUE(mentions(refusal(manifest), "'ln_f.weight.master' is (1, 72) there and (1, 64)"));
  manifest.units[3].parameters[0].name = "ln_g.weight";
  EXPECT_TRUE(mentions(refusal(manifest), "no 'ln_g.weight.master'"));
  manifest = manifest_of(kBf16);
  manifest.units.pop_back();
  EXPECT_TRUE(mentions(refusal(manifest), "it has 6 parameters and --model has 4"));
}

TEST(PortableFiller, WeightsAloneAreNothingToResumeFrom) {
  const test::TemporaryFolder folder;
  StoredModel(kBf16, 1).export_to(folder.path("p"), {.content = PortableContent::weights});
  EXPECT_TRUE(mentions(
      error_text<ConfigError>([&] { PortableFiller(folder.path("p"), manifest_of(kBf16), 0); }),
      "--with-optimizer"));
}

TEST(PortableFiller, ATornFolderIsRefused) {
  const test::TemporaryFolder folder;
  StoredModel(kBf16, 1).export_to(folder.path("p"), {});
  std::filesystem::remove(folder.path("p/strata.json"));
  EXPECT_TRUE(mentions(
      error_text<ConfigError>([&] { PortableFiller(folder.path("p"), manifest_of(kBf16), 0); }),
      "cut short"));
}

TEST(PortableFiller, MastersThatBf16CannotHoldAreRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("p");
  StoredModel(kF32, 1).export_to(path, {});
  // By hand: an infinite master with the checksum that fits it.
  PortableIndex index = decode_portable_index(test::contents_of(path + "/strata.json"));
  PortableReader reader(path);
  const PortableTensor& tensor = *reader.find("ln_f.bias.master");
  ASSERT_EQ(index.tensors.at(tensor.name).ranges.size(), 1u);
  std::vector<float> values(72);
  reader.read(tensor, 0, 72, std::as_writable_bytes(std::span(values)));
  values[5] = std::numeric_limits<float>::infinity();
  const auto bytes = std::as_bytes(std::span(values));
  std::fstream(path + "/" + index.files[static_cast<std::size_t>(tensor.file)].name,
               std::ios::in | std::ios::out | std::ios::binary)
      .seekp(tensor.offset_bytes)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  index.tensors.at(tensor.name).ranges[0].checksum =
      portable_checksum(bytes.data(), std::ssize(bytes));
  std::ofstream(path + "/strata.json") << encode(index);
  EXPECT_TRUE(
      mentions(error_text<ConfigError>([&] { expect_filled(path, kBf16, 1); }), "--precision f32"));
}

}  // namespace
}  // namespace strata::engine::testing
