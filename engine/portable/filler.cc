#include "engine/portable/filler.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateKind;

PortableFiller::PortableFiller(const std::string& folder, const store::Manifest& manifest, int rank)
    : reader_(folder), parameters_(manifest), dtypes_(manifest.dtypes), rank_(rank) {
  require_training_state(reader_.index(), folder);
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
  ShardBlock block(store, access);
  for (int unit = 0; unit < parameters_.units(); ++unit) {
    for (std::int64_t b = 0; b < parameters_.blocks_of_shard(unit); ++b) {
      ranges_ = parameters_.ranges(rank_, unit, b);
      block.begin(unit, b, parameters_.block_elements(unit, b));
      fill_masters(block, store.unit(unit).name);
      fill_moment(block, StateKind::moment1);
      fill_moment(block, StateKind::moment2);
    }
  }
  access.flush();
}

void PortableFiller::fill_masters(ShardBlock& block, const std::string& unit) {
  read_ranges(PortableState::master, std::as_writable_bytes(block.masters()));
  const float* const outside =
      dtypes_.weights == Dtype::bf16 ? block.outside_of_split_masters() : nullptr;
  if (outside != nullptr) {
    throw_error<ConfigError>(
        "--resume-from {}: a master of {} is {}, which bf16 cannot hold; "
        "use --precision f32",
        reader_.folder(), unit, *outside);
  }
  block.write_masters();
}

void PortableFiller::fill_moment(ShardBlock& block, StateKind kind) {
  if (!block.has(kind)) return;
  const std::span<std::byte> moment = block.clear_moment(kind);
  const bool first = kind == StateKind::moment1;
  read_ranges(first ? PortableState::moment1 : PortableState::moment2, moment);
  if (dtypes_.moments == MomentFormat::int8) {
    const std::int64_t elements = std::ssize(block.masters());
    const auto scales = offload::int8_offsets(0, elements, elements).scale_bytes;
    read_ranges(first ? PortableState::scales1 : PortableState::scales2,
                moment.subspan(static_cast<std::size_t>(scales)));
  }
  block.write_moment(kind);
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

}  // namespace strata::engine
