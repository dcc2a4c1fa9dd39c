#include "engine/step/batch_loader.h"

#include <algorithm>
#include <numeric>

#include "engine/plan/run_setup.h"
#include "kernels/base/error.h"
#include "kernels/ops/cross_entropy.h"

namespace strata::engine {

BatchLoader::BatchLoader(const BatchLayout& layout, Device& device, Stream& compute)
    : layout_(layout),
      compute_(compute),
      rows_max_(layout.step_rows_max()),
      device_tokens_(device.allocate(kTokensTag, layout.token_bytes())),
      host_tokens_(device.allocate_pinned(kTokensTag, layout.token_bytes())),
      window_(static_cast<std::size_t>(layout.seq_len + 1)) {
  batches_.reserve(static_cast<std::size_t>(layout.micro_batches_max()));
}

std::span<const MicroBatch> BatchLoader::load(
    const TokenSource& source, const std::function<std::int64_t(std::int64_t)>& order,
    std::int64_t first, std::int64_t count) {
  const std::int64_t length = layout_.seq_len;
  STRATA_CHECK(count * length <= rows_max_);
  auto* const tokens = host_tokens_.as<std::int32_t>();
  auto* const targets = tokens + rows_max_;
  auto* const positions = targets + rows_max_;
  for (std::int64_t i = 0; i < count; ++i) {
    source.read(order(first + i) * length, window_);
    std::copy_n(window_.begin(), length, tokens + i * length);
    std::copy_n(window_.begin() + 1, length, targets + i * length);
    std::iota(positions + i * length, positions + (i + 1) * length, 0);
  }
  upload(count * length);
  batches_.clear();
  const auto* const device = reinterpret_cast<const std::int32_t*>(device_tokens_.data());
  for (std::int64_t i = 0; i < count; i += layout_.micro_batch) {
    const std::int64_t sequences = std::min(layout_.micro_batch, count - i);
    const std::int32_t* const first_token = device + i * length;
    batches_.push_back(
        {{sequences, length, first_token + 2 * rows_max_}, first_token, first_token + rows_max_});
  }
  return batches_;
}

MicroBatch BatchLoader::load_tokens(std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  auto* const host = host_tokens_.as<std::int32_t>();
  std::copy(tokens.begin(), tokens.end(), host);
  std::fill_n(host + rows_max_, length, ops::kIgnoredTarget);
  std::iota(host + 2 * rows_max_, host + 2 * rows_max_ + length, 0);
  upload(length);
  const auto* const device = reinterpret_cast<const std::int32_t*>(device_tokens_.data());
  return {{1, length, device + 2 * rows_max_}, device, device + rows_max_};
}

// On the compute stream itself: a few kilobytes, and the compute that follows needs them first.
void BatchLoader::upload(std::int64_t rows) {
  for (int part = 0; part < 3; ++part) {
    const std::int64_t offset = part * rows_max_ * 4;
    compute_.copy(device_tokens_.data() + offset, host_tokens_.data() + offset, rows * 4);
  }
}

}  // namespace strata::engine
