#include "engine/portable/copy.h"

#include <cstring>

#include "engine/portable/index.h"
#include "kernels/base/bytes.h"
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;

namespace {

constexpr int kBuffers = 3;

std::int64_t buffer_bytes(const store::Manifest& manifest) {
  return round_up(manifest.block_elements * bytes_of(Dtype::f32), kPageBytes);
}

// The copy of one block after the other.
class BlockCopy {
 public:
  BlockCopy(const PortableLayout& layout, const CommitSource& source, PortableFiles& files,
            AlignedSpan memory, std::vector<std::uint64_t>& checksums)
      : layout_(layout), source_(source), files_(files), checksums_(checksums) {
    const std::int64_t bytes = memory.bytes() / kBuffers / kPageBytes * kPageBytes;
    for (int i = 0; i < kBuffers; ++i) buffers_[i] = memory.sub(i * bytes, bytes);
  }

  void copy(int unit, std::int64_t block) {
    ranges_ = layout_.parameters().ranges(source_.rank, unit, block);
    if (ranges_.empty()) return;
    elements_ = layout_.parameters().block_elements(unit, block);
    // In the order of kPortableStates.
    copy_weights(unit, block);
    if (layout_.format().content == PortableContent::weights) return;
    put(PortableState::master, masters());
    const std::byte* const moment1 = read(unit, StateKind::moment1, block, buffers_[1]);
    const std::byte* const moment2 = read(unit, StateKind::moment2, block, buffers_[2]);
    put(PortableState::moment1, moment1);
    put(PortableState::moment2, moment2);
    if (layout_.dtypes().moments != MomentFormat::int8) return;
    put(PortableState::scales1, scales_of(moment1));
    put(PortableState::scales2, scales_of(moment2));
  }

 private:
  // Nothing of a state that the store does not have.
  const std::byte* read(int unit, StateKind kind, std::int64_t block, AlignedSpan buffer) {
    if (source_.blocks.blocks(unit, kind) == 0) return nullptr;
    source_.blocks.read(source_.table, unit, kind, block, buffer);
    return buffer.data();
  }

  const std::byte* masters() const { return buffers_[0].data(); }

  // The masters into buffer 0, and the weights from them.
  void copy_weights(int unit, std::int64_t block) {
    auto* const master = buffers_[0].as<float>();
    auto* const weight = buffers_[1].as<bf16>();
    const bool is_split = layout_.dtypes().weights == Dtype::bf16;
    if (is_split) {
      read(unit, StateKind::weights, block, buffers_[1]);
      read(unit, StateKind::remainder, block, buffers_[2]);
      const auto* const remainder = buffers_[2].as<std::int16_t>();
      for (std::int64_t i = 0; i < elements_; ++i) master[i] = join_master(weight[i], remainder[i]);
    } else {
      read(unit, StateKind::weights, block, buffers_[0]);
    }
    if (layout_.format().weights == Dtype::f32) {
      put(PortableState::weight, masters());
      return;
    }
    if (!is_split) {
      for (std::int64_t i = 0; i < elements_; ++i) weight[i] = split_master(master[i]).weight;
    }
    put(PortableState::weight, buffers_[1].data());
  }

  const std::byte* scales_of(const std::byte* moments) const {
    return moments == nullptr
               ? nullptr
               : moments + offload::int8_offsets(0, elements_, elements_).scale_bytes;
  }

  // `values`: of the block from its begin on, in the type of the state's tensors.
  void put(PortableState state, const std::byte* values) {
    for (const BlockRange& range : ranges_) {
      const int index = layout_.tensor(range.parameter, state);
      if (index == PortableLayout::kNone) continue;
      STRATA_CHECK(values != nullptr);
      const PortableTensor& tensor = layout_.tensors()[static_cast<std::size_t>(index)];
      const auto [first, last] = elements_of(range, state);
      const std::int64_t bytes = element_bytes(tensor);
      const std::span<const std::byte> elements(values + offset_of(range, state) * bytes,
                                                static_cast<std::size_t>((last - first) * bytes));
      files_.write(tensor, first, last, elements);
      checksums_.push_back(portable_checksum(elements.data(), std::ssize(elements)));
    }
  }

  const PortableLayout& layout_;
  const CommitSource& source_;
  PortableFiles& files_;
  std::vector<std::uint64_t>& checksums_;
  AlignedSpan buffers_[kBuffers];
  std::vector<BlockRange> ranges_;
  std::int64_t elements_ = 0;
};

}  // namespace

std::int64_t portable_copy_bytes(const store::Manifest& manifest) {
  return kBuffers * buffer_bytes(manifest);
}

void copy_shard(const PortableLayout& layout, const CommitSource& source, PortableFiles& files,
                AlignedSpan memory, const std::atomic<bool>& stop,
                std::vector<std::uint64_t>& checksums) {
  BlockCopy copy(layout, source, files, memory, checksums);
  for (int unit = 0; unit < layout.parameters().units(); ++unit) {
    for (std::int64_t block = 0; block < layout.parameters().blocks_of_shard(unit); ++block) {
      if (stop) return;
      copy.copy(unit, block);
    }
  }
}

}  // namespace strata::engine
