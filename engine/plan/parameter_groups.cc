#include "engine/plan/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

struct Pattern {
  std::string text;
  double factor = 1;  // --lr-scale
  bool used = false;

  bool matches(const models::TensorSpec& tensor) {
    const bool match = ::fnmatch(text.c_str(), tensor.name.c_str(), 0) == 0;
    used = used || match;
    return match;
  }
};

using Patterns = std::vector<Pattern>;

Pattern parse_lr_scale(const std::string& text, double learning_rate) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw_error<ConfigError>("--lr-scale: '{}' is not PATTERN=X, as in wte.*=0.1", text);
  }
  Pattern pattern{text.substr(0, equals)};
  const char* const begin = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, pattern.factor);
  if (error != std::errc() || stop != end || !std::isfinite(pattern.factor) || pattern.factor < 0) {
    throw_error<ConfigError>("--lr-scale: the factor of '{}' is not a number from 0 up", text);
  }
  const auto scaled = static_cast<float>(learning_rate * pattern.factor);  // as it is used
  if (!std::isfinite(scaled) || (scaled == 0 && learning_rate > 0 && pattern.factor > 0)) {
    throw_error<ConfigError>("--lr-scale: the factor of '{}' makes the --lr of {} {} as f32", text,
                             learning_rate, scaled);
  }
  return pattern;
}

void require_used(const char* option, const Patterns& patterns, const std::string& example) {
  for (const Pattern& pattern : patterns) {
    if (pattern.used) continue;
    throw_error<ConfigError>("--{} '{}' matches no tensor of this model; names read like {}",
                             option, pattern.text, example);
  }
}

std::vector<ParameterSegment> segments_of(const models::UnitSpec& unit, Patterns& no_decay,
                                          Patterns& lr_scale) {
  std::vector<ParameterSegment> segments;
  for (const models::TensorSpec& tensor : unit.tensors) {
    ParameterSegment segment{std::numeric_limits<std::int64_t>::max(), 1, tensor.decay};
    for (Pattern& pattern : no_decay) {
      if (pattern.matches(tensor)) segment.decay = false;
    }
    for (Pattern& pattern : lr_scale) {
      if (pattern.matches(tensor)) segment.lr_scale = pattern.factor;
    }
    if (!segments.empty()) {
      const ParameterSegment& before = segments.back();
      if (before.decay == segment.decay && before.lr_scale == segment.lr_scale) continue;
      segments.back().last = tensor.offset_elements;
    }
    segments.push_back(segment);
  }
  return segments;
}

}  // namespace

std::vector<std::vector<ParameterSegment>> parameter_groups(
    const std::vector<models::UnitSpec>& units, const std::vector<std::string>& no_decay,
    const std::vector<std::string>& lr_scale, double learning_rate) {
  Patterns without_decay;
  for (const std::string& text : no_decay) without_decay.push_back({text});
  Patterns scaled;
  for (const std::string& text : lr_scale) scaled.push_back(parse_lr_scale(text, learning_rate));
  std::vector<std::vector<ParameterSegment>> groups;
  for (const models::UnitSpec& unit : units) {
    groups.push_back(segments_of(unit, without_decay, scaled));
  }
  const std::string& example = units.back().tensors.front().name;
  require_used("no-decay", without_decay, example);
  require_used("lr-scale", scaled, example);
  if (std::all_of(groups.begin(), groups.end(), wholly_frozen)) {
    throw ConfigError("--lr-scale freezes every parameter, which leaves nothing to train");
  }
  return groups;
}

bool wholly_frozen(const std::vector<ParameterSegment>& segments) {
  return std::all_of(segments.begin(), segments.end(),
                     [](const ParameterSegment& segment) { return segment.frozen(); });
}

std::vector<ElementRange> trained_ranges(const std::vector<ParameterSegment>& segments,
                                         std::int64_t first, std::int64_t last) {
  std::vector<ElementRange> ranges;
  std::int64_t begin = 0;
  for (const ParameterSegment& segment : segments) {
    const ElementRange range{std::max(begin, first) - first, std::min(segment.last, last) - first};
    begin = segment.last;
    if (segment.frozen() || range.first >= range.last) continue;
    if (!ranges.empty() && ranges.back().last == range.first) {
      ranges.back().last = range.last;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

}  // namespace strata::engine
