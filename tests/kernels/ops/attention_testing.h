// What the tests of attention share: random operands with their masks, on the host and on a device,
// packed or apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "kernels/ops/attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {

inline constexpr float kQueryScale = 8;  // scores that differ by much more than 1

enum class Documents : std::uint8_t { one, random };

struct AttentionCase {
  AttentionShape shape;
  std::int64_t window = 0;
  Documents documents = Documents::one;
  std::optional<float> scale = std::nullopt;
};

inline std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// (B, T) starts of documents of 1 … 199 tokens.
inline std::vector<std::int32_t> random_document_starts(const AttentionShape& shape) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int64_t> length(1, 199);
  std::vector<std::int32_t> starts;
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    std::int64_t start = 0;
    std::int64_t end = length(generator);
    for (std::int64_t token = 0; token < shape.tokens; ++token) {
      if (token == end) {
        start = token;
        end += length(generator);
      }
      starts.push_back(static_cast<std::int32_t>(start));
    }
  }
  return starts;
}

// q, k, v or their gradients on the host: (B·T, H·D), (B·T, Hkv·D) twice.
struct HostQkv {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

inline HostQkv random_qkv(const AttentionShape& shape, Dtype dtype) {
  HostQkv values = {random_values(dtype, shape.rows() * shape.channels(), 1),
                    random_values(dtype, shape.rows() * shape.kv_channels(), 2),
                    random_values(dtype, shape.rows() * shape.kv_channels(), 3)};
  for (float& q : values.q) q *= kQueryScale;
  return values;
}

// In device memory: with a gap three matrices, without one a packed projection.
class DeviceQkv {
 public:
  DeviceQkv(TestDevice& device, const AttentionShape& shape, Dtype dtype, std::int64_t gap,
            const HostQkv& values)
      : shape_(shape) {
    parts_.reserve(3);
    if (gap > 0) {
      const auto add = [&](std::int64_t cols, const std::vector<float>& of) {
        parts_.emplace_back(device, dtype, shape.rows(), cols, gap, of);
      };
      add(shape.channels(), values.q);
      add(shape.kv_channels(), values.k);
      add(shape.kv_channels(), values.v);
    } else {
      parts_.emplace_back(device, dtype, shape.rows(), shape.channels() + 2 * shape.kv_channels(),
                          0, packed(values));
    }
  }
  // Zeros.
  DeviceQkv(TestDevice& device, const AttentionShape& shape, Dtype dtype, std::int64_t gap)
      : DeviceQkv(device, shape, dtype, gap,
                  {std::vector<float>(as_size(shape.rows() * shape.channels())),
                   std::vector<float>(as_size(shape.rows() * shape.kv_channels())),
                   std::vector<float>(as_size(shape.rows() * shape.kv_channels()))}) {}

  Qkv views() const {
    if (parts_.size() == 1) return unpack(shape_, parts_[0].view());
    return {parts_[0].view(), parts_[1].view(), parts_[2].view()};
  }
  HostQkv get() const {
    if (parts_.size() == 3) return {parts_[0].get(), parts_[1].get(), parts_[2].get()};
    const std::vector<float> all = parts_[0].get();
    HostQkv values;
    for (auto row = all.begin(); row != all.end();) {
      const auto move = [&](std::vector<float>& to, std::int64_t cols) {
        to.insert(to.end(), row, row + cols);
        row += cols;
      };
      move(values.q, shape_.channels());
      move(values.k, shape_.kv_channels());
      move(values.v, shape_.kv_channels());
    }
    return values;
  }

 private:
  std::vector<float> packed(const HostQkv& values) const {
    std::vector<float> all;
    for (std::int64_t row = 0; row < shape_.rows(); ++row) {
      const auto append = [&](const std::vector<float>& from, std::int64_t cols) {
        all.insert(all.end(), from.begin() + row * cols, from.begin() + (row + 1) * cols);
      };
      append(values.q, shape_.channels());
      append(values.k, shape_.kv_channels());
      append(values.v, shape_.kv_channels());
    }
    return all;
  }

  AttentionShape shape_;
  std::vector<DeviceMatrix> parts_;
};

// The options of a case, with its document starts in device memory.
class DeviceOptions {
 public:
  DeviceOptions(TestDevice& device, const AttentionCase& of)
      : options_{.scale = of.scale, .window = of.window} {
    if (of.documents == Documents::one) return;
    starts_ = device.upload(random_document_starts(of.shape));
    options_.document_starts = reinterpret_cast<const std::int32_t*>(starts_->data());
  }
  operator const AttentionOptions&() const { return options_; }  // NOLINT(google-explicit-*)

 private:
  AttentionOptions options_;
  std::optional<DeviceBuffer> starts_;
};

}  // namespace strata::ops
