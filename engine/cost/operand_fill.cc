#include "engine/cost/operand_fill.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/cost/measured_rates.h"
#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

namespace {

constexpr std::int64_t kStagingBytesMax = kMiB;

// Numbers [first, end) of as many.
void write_random(std::byte* to, Dtype dtype, std::int64_t first, std::int64_t end, float scale) {
  SplitMix64 random{static_cast<std::uint64_t>(first)};
  for (std::int64_t i = first; i < end; ++i) {
    const float x = scale * (static_cast<float>(random() >> 40) * 0x1p-23f - 1);
    if (dtype == Dtype::f32) {
      reinterpret_cast<float*>(to)[i] = x;
    } else {
      reinterpret_cast<bf16*>(to)[i] = {
          static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
    }
  }
}

}  // namespace

OperandFill::OperandFill(const RunSetup& setup, Device& device) {
  if (device.kind() == DeviceKind::cpu) {
    workers_ = &static_cast<CpuDevice&>(device).workers();
    return;
  }
  const std::int64_t room = room_in(setup, offload::Tier::host, device);
  stream_ = device.make_stream("measurement");
  staging_ = device.allocate_pinned("measurement", std::min(kStagingBytesMax, room));
}

void OperandFill::random(const ops::Matrix& numbers, float scale) {
  auto* const to = static_cast<std::byte*>(numbers.data);
  const std::int64_t count = numbers.rows * numbers.cols;
  if (workers_ != nullptr) {
    constexpr std::int64_t kTile = 1 << 16;
    workers_->parallel_for(ceil_div(count, kTile), [&](std::int64_t tile, int) {
      write_random(to, numbers.dtype, tile * kTile, std::min(count, (tile + 1) * kTile), scale);
    });
    return;
  }
  const std::int64_t bytes = count * bytes_of(numbers.dtype);
  std::int64_t filled = std::min(bytes, staging_.bytes());
  write_random(staging_.data(), numbers.dtype, 0, filled / bytes_of(numbers.dtype), scale);
  stream_->copy(to, staging_.data(), filled);
  for (std::int64_t more = 0; filled < bytes; filled += more) {
    more = std::min(filled, bytes - filled);
    stream_->copy(to + filled, to, more);
  }
  stream_->synchronize();
}

void OperandFill::zero(const DeviceBuffer& buffer) {
  if (workers_ == nullptr) {
    stream_->fill_zero(buffer.data(), buffer.bytes());
    return stream_->synchronize();
  }
  constexpr std::int64_t kTile = kMiB;
  workers_->parallel_for(ceil_div(buffer.bytes(), kTile), [&](std::int64_t tile, int) {
    const std::int64_t begin = tile * kTile;
    std::memset(buffer.data() + begin, 0,
                static_cast<std::size_t>(std::min(kTile, buffer.bytes() - begin)));
  });
}

void OperandFill::write(std::int32_t* to, std::span<const std::int32_t> values) {
  auto* const bytes_to = reinterpret_cast<std::byte*>(to);
  const auto bytes = std::as_bytes(values);
  if (workers_ != nullptr) {
    std::memcpy(bytes_to, bytes.data(), bytes.size());
    return;
  }
  const std::int64_t count = std::ssize(bytes);
  for (std::int64_t at = 0; at < count; at += staging_.bytes()) {
    const std::int64_t piece = std::min(staging_.bytes(), count - at);
    std::memcpy(staging_.data(), bytes.data() + at, static_cast<std::size_t>(piece));
    stream_->copy(bytes_to + at, staging_.data(), piece);
    stream_->synchronize();
  }
}

}  // namespace strata::engine
