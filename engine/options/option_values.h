// How the text of an option becomes a member of Options and back: one maker per kind of value, used
// by the table in option_list.cc. Every set() throws ConfigError saying what is accepted, and
// accepts whatever its get() returns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

struct OptionField {
  std::string value_hint;
  std::function<void(Options&, std::string_view)> set;
  std::function<std::string(const Options&)> get;
};

OptionField text_field(std::string value_hint, std::string Options::*member);
// As text_field, with \n, \t and \\ read as in C.
OptionField escaped_text_field(std::string value_hint, std::string Options::*member);
// One of `choices`; the hint is "a|b|c".
OptionField choice_field(std::vector<std::string> choices, std::string Options::*member);
// Comma-separated; setting it again replaces the whole list.
OptionField list_field(std::string value_hint, std::vector<std::string> Options::*member);

OptionField integer_field(int Options::*member);
OptionField integer_field(std::int64_t Options::*member);
OptionField integer_field(std::uint64_t Options::*member);
// An integer, or "auto" for none.
OptionField integer_field(std::optional<int> Options::*member);
OptionField integer_field(std::optional<std::int64_t> Options::*member);
// A size as parse_bytes() reads it, or "auto" for none.
OptionField size_field(std::optional<std::int64_t> Options::*member);
// A size as parse_bytes() reads it.
OptionField size_field(std::int64_t Options::*member);
// A finite number.
OptionField number_field(std::string value_hint, double Options::*member);
// Steps ("100") or a share of all steps ("3%").
OptionField steps_or_percent_field(std::string Options::*member);
// A time: "20s", "30min", "1.5h"; a number alone is seconds.
OptionField duration_field(double Options::*member);
// Steps ("50"), a time ("30min"), or 0 for never; its default is kDefaultCheckpointInterval.
OptionField interval_field(std::optional<CheckpointInterval> Options::*member);
// on or off.
OptionField switch_field(bool Options::*member);

}  // namespace strata::engine
