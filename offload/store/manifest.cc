#include "offload/store/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/manifest_check.h"

namespace strata::store {

using nlohmann::json;
using offload::StateDtypes;
using offload::StateKind;

namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::bf16};
constexpr MomentFormat kMomentFormats[] = {MomentFormat::f32, MomentFormat::bf16,
                                           MomentFormat::int8};

// The members of an object that has exactly these.
const json& object(const json& value, std::initializer_list<const char*> members) {
  const bool matches = value.is_object() && value.size() == members.size() &&
                       std::all_of(members.begin(), members.end(),
                                   [&](const char* name) { return value.contains(name); });
  if (!matches) {
    throw_error<FormatError>("the manifest has no object of {} where it should",
                             fmt::join(members, ", "));
  }
  return value;
}

const json& array(const json& value, const char* name) {
  if (!value.is_array()) throw_error<FormatError>("'{}' of the manifest is no array", name);
  return value;
}

std::int64_t integer(const json& object, const char* name) {
  const json& value = object.at(name);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits) throw_error<FormatError>("'{}' of the manifest is no integer", name);
  return value.get<std::int64_t>();
}

std::string text(const json& object, const char* name) {
  const json& value = object.at(name);
  if (!value.is_string()) throw_error<FormatError>("'{}' of the manifest is no text", name);
  return value.get<std::string>();
}

template <typename T, std::size_t N>
T one_of(const json& object, const char* name, const T (&values)[N]) {
  const std::string chosen = text(object, name);
  for (const T value : values) {
    if (chosen == name_of(value)) return value;
  }
  throw_error<FormatError>("'{}' of the manifest is '{}'", name, chosen);
}

json to_json(const StateDtypes& dtypes) {
  return {{"weights", name_of(dtypes.weights)},
          {"gradients", name_of(dtypes.gradients)},
          {"moments", name_of(dtypes.moments)},
          {"moment_count", dtypes.moment_count}};
}

StateDtypes dtypes_from(const json& value) {
  object(value, {"weights", "gradients", "moments", "moment_count"});
  StateDtypes dtypes;
  dtypes.weights = one_of(value, "weights", kDtypes);
  dtypes.gradients = one_of(value, "gradients", kDtypes);
  dtypes.moments = one_of(value, "moments", kMomentFormats);
  const std::int64_t moments = integer(value, "moment_count");
  if (moments != 1 && moments != 2) {
    throw_error<FormatError>("'moment_count' of the manifest is {}", moments);
  }
  dtypes.moment_count = static_cast<int>(moments);
  return dtypes;
}

json to_json(const Parameter& parameter) {
  return {{"name", parameter.name},
          {"rows", parameter.rows},
          {"columns", parameter.columns},
          {"first_row", parameter.first_row},
          {"offset", parameter.offset_elements}};
}

Parameter parameter_from(const json& value) {
  object(value, {"name", "rows", "columns", "first_row", "offset"});
  return {text(value, "name"), integer(value, "rows"), integer(value, "columns"),
          integer(value, "first_row"), integer(value, "offset")};
}

json to_json(const StoredUnit& unit) {
  json parameters = json::array();
  for (const Parameter& parameter : unit.parameters) parameters.push_back(to_json(parameter));
  json extents = json::object();
  for (std::size_t k = 0; k < unit.extents.size(); ++k) {
    const std::optional<Extent>& extent = unit.extents[k];
    if (!extent) continue;
    extents[offload::name_of(static_cast<StateKind>(k))] = {{"bytes", extent->bytes},
                                                            {"slots", extent->slot_offsets}};
  }
  return {{"name", unit.name},
          {"elements", unit.elements},
          {"shard_elements", unit.shard_elements},
          {"parameters", std::move(parameters)},
          {"extents", std::move(extents)}};
}

Extent extent_from(const json& value) {
  object(value, {"bytes", "slots"});
  Extent extent;
  extent.bytes = integer(value, "bytes");
  for (const json& slot : array(value.at("slots"), "slots")) {
    extent.slot_offsets.push_back(integer({{"slot", slot}}, "slot"));
  }
  return extent;
}

StoredUnit unit_from(const json& value) {
  object(value, {"name", "elements", "shard_elements", "parameters", "extents"});
  StoredUnit unit;
  unit.name = text(value, "name");
  unit.elements = integer(value, "elements");
  unit.shard_elements = integer(value, "shard_elements");
  for (const json& parameter : array(value.at("parameters"), "parameters")) {
    unit.parameters.push_back(parameter_from(parameter));
  }
  const json& extents = value.at("extents");
  std::size_t known = 0;
  for (std::size_t k = 0; k < unit.extents.size(); ++k) {
    const char* const name = offload::name_of(static_cast<StateKind>(k));
    if (!extents.is_object() || !extents.contains(name)) continue;
    unit.extents[k] = extent_from(extents.at(name));
    ++known;
  }
  if (!extents.is_object() || known != extents.size()) {
    throw_error<FormatError>("the extents of {} in the manifest are not all of known kinds",
                             unit.name);
  }
  return unit;
}

Manifest manifest_from(const json& value) {
  object(value, {"dtypes", "block_elements", "slots", "data_bytes", "units"});
  Manifest manifest;
  manifest.dtypes = dtypes_from(value.at("dtypes"));
  manifest.block_elements = integer(value, "block_elements");
  manifest.slots = integer(value, "slots") == 2 ? 2 : 1;
  if (integer(value, "slots") != manifest.slots) throw FormatError("a store has one slot, or two");
  manifest.data_bytes = integer(value, "data_bytes");
  for (const json& unit : array(value.at("units"), "units")) {
    manifest.units.push_back(unit_from(unit));
  }
  return manifest;
}

}  // namespace

std::int64_t Manifest::committed_blocks() const {
  std::int64_t blocks = 0;
  for (const StoredUnit& unit : units) {
    for (std::size_t k = 0; k < unit.extents.size(); ++k) {
      const auto kind = static_cast<StateKind>(k);
      if (!unit.extents[k] || kind == StateKind::gradients) continue;
      blocks += ceil_div(unit.extents[k]->bytes,
                         offload::state_bytes(kind, dtypes, block_elements, block_elements));
    }
  }
  return blocks;
}

std::string encode(const Manifest& manifest) {
  json units = json::array();
  for (const StoredUnit& unit : manifest.units) units.push_back(to_json(unit));
  return json{{"dtypes", to_json(manifest.dtypes)},
              {"block_elements", manifest.block_elements},
              {"slots", manifest.slots},
              {"data_bytes", manifest.data_bytes},
              {"units", std::move(units)}}
      .dump();
}

Manifest decode_manifest(std::string_view text) {
  Manifest manifest;
  try {
    manifest = manifest_from(json::parse(text));
  } catch (const json::exception& error) {
    throw_error<FormatError>("the manifest cannot be read: {}", error.what());
  }
  check(manifest);
  return manifest;
}

}  // namespace strata::store
