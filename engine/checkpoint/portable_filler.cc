#include "engine/checkpoint/portable_filler.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;

PortableFiller::PortableFiller(const std::string& folder, const store::Manifest& manifest, int rank)
    : reader_(folder), parameters_(manifest), dtypes_(manifest.dtypes), rank_(rank) {
  if (reader_.index().content == PortableContent::weights) {
    throw_error<ConfigError>(
        "--resume-from {}: it holds weights only; export it with --with-optimizer", folder);
  }
  check_format();
  for (const PortableParameter& parameter : parameters_.all()) {
    for (const PortableState state : kPortableStates) check_tensor(parameter, state);
  }
}

void PortableFiller::check_format() const {
  const PortableIndex& index = reader_.index();
  if (index.moments != dtypes_.moments) {
    throw_error<ConfigError>("--resume-from {}: its moments are {}, and --moments is {}",
                             reader_.folder(), name_of(index.moments), name_of(dtypes_.moments));
  }
  if (index.moment_count != dtypes_.moment_count) {
    throw_error<ConfigError>(
        "--resume-from {}: its optimizer keeps {} moments and that of --optimizer {}",
        reader_.folder(), index.moment_count, dtypes_.moment_count);
  }
  const auto masters = std::ranges::count_if(
      reader_.tensors(), [](const auto& entry) { return entry.first.ends_with(".master"); });
  if (masters > std::ssize(parameters_.all())) {
    throw_error<ConfigError>("--resume-from {}: it has {} parameters and --model has {}",
                             reader_.folder(), masters, parameters_.all().size());
  }
}

void PortableFiller::check_tensor(const PortableParameter& parameter, PortableState state) const {
  if (state == PortableState::weight) return;  // the masters decide
  const PortableTensor* const tensor = reader_.find(optimizer_tensor_name(parameter.name, state));
  if (tensor == nullptr) {
    PortableParameter stored = parameter;
    stored.has_moments =
        reader_.find(optimizer_tensor_name(parameter.name, PortableState::moment1)) != nullptr;
    if (!is_kept(state, stored, dtypes_)) return;
    throw_error<ConfigError>("--resume-from {}: it has no '{}', which --model needs",
                             reader_.folder(), optimizer_tensor_name(parameter.name, state));
  }
  const std::int64_t rows = is_scales(state) ? 1 : parameter.rows;
  const std::int64_t columns = is_scales(state) ? parameter.scales : parameter.columns;
  if (tensor->rows != rows || tensor->columns != columns) {
    throw_error<ConfigError>("--resume-from {}: '{}' is ({}, {}) there and ({}, {}) in --model",
                             reader_.folder(), tensor->name, tensor->rows, tensor->columns, rows,
                             columns);
  }
  if (const char* const dtype = dtype_of(state, dtypes_.moments); tensor->dtype != dtype) {
    throw_error<FormatError>("{}: tensor '{}' is of type {}, not {}", reader_.folder(),
                             tensor->name, tensor->dtype, dtype);
  }
}

void PortableFiller::fill(offload::StateStore& store, StateAccess& access,
                          AlignedSpan /*staging*/) {
  const auto block = static_cast<std::size_t>(store.plan().block_elements);
  master_.resize(block);
  weight_.resize(block);
  remainder_.resize(block);
  for (int unit = 0; unit < parameters_.units(); ++unit) {
    for (std::int64_t b = 0; b < parameters_.blocks_of_shard(unit); ++b) {
      ranges_ = parameters_.ranges(rank_, unit, b);
      const Target target{store, access, unit, b, parameters_.block_elements(unit, b)};
      fill_weights(target);
      fill_moment(target, StateKind::moment1);
      fill_moment(target, StateKind::moment2);
    }
  }
  access.flush();
}

void PortableFiller::fill_weights(const Target& target) {
  const auto elements = static_cast<std::size_t>(target.elements);
  std::fill_n(master_.begin(), elements, 0.0f);
  read_ranges(PortableState::master, std::as_writable_bytes(std::span(master_)));
  if (target.store.plan().dtypes.weights == Dtype::f32) {
    write(target, StateKind::weights, std::as_bytes(std::span(master_)));
    return;
  }
  const float bound = std::bit_cast<float>(kSplitMasterBoundBits);
  for (std::size_t i = 0; i < elements; ++i) {
    if (!(std::abs(master_[i]) < bound)) {
      throw_error<ConfigError>(
          "--resume-from {}: a master of {} is {}, which bf16 cannot hold; "
          "use --precision f32",
          reader_.folder(), target.store.unit(target.unit).name, master_[i]);
    }
    const SplitMaster split = split_master(master_[i]);
    weight_[i] = split.weight;
    remainder_[i] = split.remainder;
  }
  write(target, StateKind::weights, std::as_bytes(std::span(weight_)));
  write(target, StateKind::remainder, std::as_bytes(std::span(remainder_)));
}

void PortableFiller::fill_moment(const Target& target, StateKind kind) {
  const offload::Plan& plan = target.store.plan();
  if (plan.shard_bytes(target.store.unit(target.unit), kind) == 0) return;
  const std::int64_t bytes = plan.bytes_of_elements(kind, target.elements);
  moment_.assign(static_cast<std::size_t>(bytes), std::byte{0});
  const bool first = kind == StateKind::moment1;
  read_ranges(first ? PortableState::moment1 : PortableState::moment2, moment_);
  if (plan.dtypes.moments == MomentFormat::int8) {
    const auto scales = offload::int8_offsets(0, target.elements, target.elements).scale_bytes;
    read_ranges(first ? PortableState::scales1 : PortableState::scales2,
                std::span(moment_).subspan(static_cast<std::size_t>(scales)));
  }
  write(target, kind, moment_);
}

void PortableFiller::read_ranges(PortableState state, std::span<std::byte> values) {
  for (const BlockRange& range : ranges_) {
    const PortableParameter& parameter =
        parameters_.all()[static_cast<std::size_t>(range.parameter)];
    const PortableTensor* const tensor = reader_.find(optimizer_tensor_name(parameter.name, state));
    if (tensor == nullptr) continue;
    const auto [first, last] = elements_of(range, state);
    const std::int64_t bytes = element_bytes(*tensor);
    const std::int64_t offset = offset_of(range, state) * bytes;
    reader_.read(*tensor, first, last,
                 values.subspan(static_cast<std::size_t>(offset),
                                static_cast<std::size_t>((last - first) * bytes)));
  }
}

void PortableFiller::write(const Target& target, StateKind kind,
                           std::span<const std::byte> values) {
  const offload::Plan& plan = target.store.plan();
  const std::int64_t offset = plan.bytes_of_elements(kind, target.block * plan.block_elements);
  const std::int64_t bytes = plan.bytes_of_elements(kind, target.elements);
  target.access.write(target.unit, kind, offset, values.first(static_cast<std::size_t>(bytes)));
}

}  // namespace strata::engine
