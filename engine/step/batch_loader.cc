#include "engine/step/batch_loader.h"

#include <algorithm>

#include "engine/plan/run_setup.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/ops/cross_entropy.h"

namespace strata::engine {
namespace {

constexpr int kColumns = BatchLayout::kRowBytes / 4;  // of SampleRows

std::int64_t targets_in(std::span<const std::int32_t> targets) {
  return std::ssize(targets) - std::ranges::count(targets, ops::kIgnoredTarget);
}

}  // namespace

RowCounts& RowCounts::operator+=(const RowCounts& other) {
  targets += other.targets;
  tokens += other.tokens;
  computed += other.computed;
  return *this;
}

BatchLoader::BatchLoader(const BatchLayout& layout, Device& device, Stream& compute,
                         offload::Ledger& ledger)
    : layout_(layout),
      compute_(compute),
      ledger_(ledger),
      rows_max_(layout.step_rows_max()),
      device_rows_(device.allocate(kTokensTag, layout.token_bytes())),
      host_rows_(device.allocate_pinned(kTokensTag, layout.token_bytes())) {
  batches_.reserve(static_cast<std::size_t>(layout.micro_batches_max()));
}

LoadedBatches BatchLoader::load(const Samples& samples,
                                const std::function<std::int64_t(std::int64_t)>& order,
                                std::int64_t first, std::int64_t count) {
  STRATA_CHECK(count * layout_.seq_len <= rows_max_);
  RowCounts rows;
  batches_.clear();
  for (std::int64_t i = 0; i < count; i += layout_.micro_batch) {
    const std::int64_t sequences = std::min(layout_.micro_batch, count - i);
    std::int64_t longest = 0;
    for (std::int64_t s = i; s < i + sequences; ++s) {
      const std::int64_t length = samples.rows(order(first + s));
      longest = std::max(longest, length);
      rows.tokens += length;
    }
    const std::int64_t length = samples.layout() == SampleLayout::padded
                                    ? std::min(round_up(longest, kPaddedMultiple), layout_.seq_len)
                                    : layout_.seq_len;
    for (std::int64_t s = 0; s < sequences; ++s) {
      const SampleRows destination = host_rows(rows.computed + s * length, length);
      samples.read(order(first + i + s), destination);
      rows.targets += targets_in(destination.targets);
    }
    batches_.push_back(micro_batch(samples.layout(), rows.computed, sequences, length));
    rows.computed += sequences * length;
  }
  upload(rows.computed);
  return {batches_, rows};
}

SampleRows BatchLoader::host_rows(std::int64_t first, std::int64_t count) {
  auto* const columns = host_rows_.as<std::int32_t>() + first;
  const auto column = [&](int c) {
    return std::span(columns + c * rows_max_, static_cast<std::size_t>(count));
  };
  return {column(0), column(1), column(2), column(3)};
}

MicroBatch BatchLoader::micro_batch(SampleLayout layout, std::int64_t first, std::int64_t sequences,
                                    std::int64_t length) const {
  const auto* const columns = reinterpret_cast<const std::int32_t*>(device_rows_.data()) + first;
  const auto* const document_starts =
      layout == SampleLayout::packed ? columns + 3 * rows_max_ : nullptr;
  return {
      {sequences, length, columns + 2 * rows_max_, document_starts}, columns, columns + rows_max_};
}

// On the compute stream itself: a few kilobytes, and the compute that follows needs them first.
void BatchLoader::upload(std::int64_t rows) {
  for (int column = 0; column < kColumns; ++column) {
    const std::int64_t offset = column * rows_max_ * 4;
    compute_.copy(device_rows_.data() + offset, host_rows_.data() + offset, rows * 4);
  }
  ledger_.add(offload::Account::pass, offload::Link::to_device, offload::MovedKind::batch,
              rows * BatchLayout::kRowBytes);
}

}  // namespace strata::engine
