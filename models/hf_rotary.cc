#include "models/hf_rotary.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "models/model_config.h"

namespace strata::models {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr double kDefaultTheta = 10000;
constexpr const char* kOriginalContext = "original_max_position_embeddings";

std::int64_t original_context(const HfKeys& root, const HfKeys& scaling, std::int64_t context) {
  const HfKeys& holder = root.missing(kOriginalContext) ? scaling : root;
  return holder.count(kOriginalContext, 1, kContextMax, context);
}

Llama3Rotary read_llama3(const HfKeys& root, const HfKeys& scaling, std::int64_t context) {
  Llama3Rotary rotary;
  rotary.factor = scaling.number("factor", 0);
  rotary.low_freq_factor = scaling.number("low_freq_factor", 0);
  rotary.high_freq_factor = scaling.number("high_freq_factor", 0);
  rotary.original_context = original_context(root, scaling, context);
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    scaling.problem(fmt::format("{} ({}) must be above low_freq_factor ({})",
                                scaling.named("high_freq_factor"), rotary.high_freq_factor,
                                rotary.low_freq_factor));
  }
  return rotary;
}

// 0 counts as absent.
std::optional<double> read_mscale(const HfKeys& scaling, const char* key) {
  if (scaling.value(key) == 0) return std::nullopt;
  return scaling.optional_number(key, 0);
}

YarnRotary read_yarn(const HfKeys& root, const HfKeys& scaling, std::int64_t context) {
  YarnRotary rotary;
  rotary.original_context = original_context(root, scaling, context);
  const double ratio =
      rotary.original_context == 0
          ? 1
          : static_cast<double>(context) / static_cast<double>(rotary.original_context);
  rotary.factor = scaling.number("factor", 0, ratio);
  rotary.beta_fast = scaling.number("beta_fast", 0, rotary.beta_fast);
  rotary.beta_slow = scaling.number("beta_slow", 0, rotary.beta_slow);
  rotary.range =
      scaling.flag("truncate", true) ? YarnRotary::Range::whole_indices : YarnRotary::Range::exact;
  rotary.attention_factor = scaling.optional_number("attention_factor", 0);
  rotary.mscale = read_mscale(scaling, "mscale");
  rotary.mscale_all_dim = read_mscale(scaling, "mscale_all_dim");
  return rotary;
}

RotaryScaling read_scaling(const HfKeys& root, const HfKeys& scaling, std::int64_t context) {
  const char* const type_key = scaling.missing("rope_type") ? "type" : "rope_type";
  const std::string type = scaling.text(type_key, "default");
  if (type == "default") return PlainRotary{};
  if (type == "linear") return LinearRotary{scaling.number("factor", 0)};
  if (type == "llama3") return read_llama3(root, scaling, context);
  if (type == "yarn") return read_yarn(root, scaling, context);
  scaling.problem(fmt::format("{} is {}; supported: default, linear, llama3, yarn",
                              scaling.named(type_key), json_excerpt(scaling.value(type_key))));
  return PlainRotary{};
}

struct ScalingText {
  ordered_json operator()(const PlainRotary&) const { return nullptr; }
  ordered_json operator()(const LinearRotary& rotary) const {
    return {{"rope_type", "linear"}, {"factor", rotary.factor}};
  }
  ordered_json operator()(const Llama3Rotary& rotary) const {
    return {{"rope_type", "llama3"},
            {"factor", rotary.factor},
            {"low_freq_factor", rotary.low_freq_factor},
            {"high_freq_factor", rotary.high_freq_factor},
            {kOriginalContext, rotary.original_context}};
  }
  ordered_json operator()(const YarnRotary& rotary) const {
    ordered_json text = {{"rope_type", "yarn"},
                         {"factor", rotary.factor},
                         {kOriginalContext, rotary.original_context},
                         {"beta_fast", rotary.beta_fast},
                         {"beta_slow", rotary.beta_slow},
                         {"truncate", rotary.range == YarnRotary::Range::whole_indices}};
    if (rotary.attention_factor) text["attention_factor"] = *rotary.attention_factor;
    if (rotary.mscale) text["mscale"] = *rotary.mscale;
    if (rotary.mscale_all_dim) text["mscale_all_dim"] = *rotary.mscale_all_dim;
    return text;
  }
};

}  // namespace

RotaryConfig read_hf_rotary(const HfKeys& root, std::int64_t head_dim, std::int64_t context) {
  // An empty one counts as none.
  const char* const key = root.value("rope_scaling").empty() ? "rope_parameters" : "rope_scaling";
  static const json kNone = json::object();
  const json& given = root.value(key);
  RotaryConfig rotary;
  rotary.head_dim = head_dim;
  if (!given.is_object() && !given.is_null()) {
    root.problem(fmt::format("{} is {} and no object", key, json_excerpt(given)));
    return rotary;
  }
  const HfKeys scaling = root.within(given.is_null() ? kNone : given, key);
  for (const auto& [name, value] : given.items()) {
    if (!value.is_structured()) continue;
    root.problem(fmt::format("{} is {}; positions that differ by layer are not supported",
                             scaling.named(name.c_str()), json_excerpt(value)));
  }
  rotary.theta = scaling.missing("rope_theta") ? root.number("rope_theta", 1, kDefaultTheta)
                                               : scaling.number("rope_theta", 1);
  for (const HfKeys* const keys : {&root, &scaling}) keys->require("partial_rotary_factor", 1.0);
  rotary.scaling = read_scaling(root, scaling, context);
  return rotary;
}

ordered_json hf_rope_scaling(const RotaryConfig& rotary) {
  return std::visit(ScalingText{}, rotary.scaling);
}

}  // namespace strata::models
