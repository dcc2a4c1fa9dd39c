#include "engine/profile/span_meaning.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/span_names.h"
#include "kernels/device/device.h"

namespace strata::engine {
namespace {

using Kind = SpanMeaning::Kind;

struct NamedMeaning {
  std::string_view name;
  SpanMeaning meaning;
};

constexpr SpanMeaning idle(Idle reason) { return {Kind::idle, reason, {}}; }
constexpr SpanMeaning as_row(std::string_view row) { return {Kind::as_row, Idle::nothing, row}; }

const NamedMeaning kMeanings[] = {
    {span_names::kWaitRead, idle(Idle::read)},
    {span_names::kWaitWrite, idle(Idle::write)},
    {span_names::kWaitStaging, idle(Idle::staging)},
    {span_names::kWaitSlot, idle(Idle::slot)},
    {span_names::kWaitTurn, idle(Idle::compute)},
    {span_names::kWaitRanks, idle(Idle::ranks)},
    {span_names::kWaitCommit, idle(Idle::commit)},
    {span_names::kWaitUpdate, as_row("optimizer")},
    {span_names::kWaitFetch, as_row("fetch")},
    {span_names::kWaitCompute, as_row("compute")},
    {span_names::kWaitGradients, as_row("gradients")},
    {span_names::kWaitLoad, as_row("act load")},
    {span_names::kWaitStore, as_row("act store")},
    {span_names::kWaitCopyIn, as_row("act in")},
    {span_names::kWaitCopyOut, as_row("act out")},
    {span_names::kWaitToHost, as_row("d2h")},
    // Of streams.
    {name_of(WaitFor::weights_ready), as_row("h2d")},
    {name_of(WaitFor::slot_free), idle(Idle::slot)},
    {name_of(WaitFor::shard_on_device), as_row("h2d")},
    {name_of(WaitFor::gradients_ready), idle(Idle::compute)},
    {name_of(WaitFor::gradient_reduced), as_row("reduce")},
    {name_of(WaitFor::gradient_slot_free), as_row("d2h")},
    {name_of(WaitFor::activation_ready), as_row("act in")},
    {name_of(WaitFor::activation_written), idle(Idle::compute)},
    {name_of(WaitFor::activation_free), idle(Idle::slot)},
    {name_of(WaitFor::state_written), idle(Idle::write)},
};

struct Feeding {
  std::string_view row;
  std::string_view feeder;
};

constexpr Feeding kFeeders[] = {
    {"compute", "main"},       {"h2d", "fetch"},        {"gather", "h2d"},
    {"d2h", "gradients"},      {"reduce", "gradients"}, {"grad copy", "gradients"},
    {"opt copy", "optimizer"}, {"act in", "act load"},  {"act out", "act store"}};

constexpr std::string_view kThreads[] = {"optimizer", "gradients", "fetch", "act load",
                                         "act store"};
constexpr std::string_view kStreams[] = {"compute",  "h2d",        "d2h",        "act in",
                                         "act out",  "reduce",     "gather",     "grad copy",
                                         "opt copy", "state copy", "commit copy"};

template <std::size_t count>
bool is_one_of(const std::string_view (&rows)[count], std::string_view row) {
  return std::find(std::begin(rows), std::end(rows), row) != std::end(rows);
}

}  // namespace

const char* name_of(Idle idle) {
  static constexpr const char* kNames[] = {"read",  "verify",  "write",  "staging",
                                           "slot",  "compute", "update", "other",
                                           "ranks", "commit",  "nothing"};
  static_assert(std::size(kNames) == kIdles);
  return kNames[static_cast<std::size_t>(idle)];
}

SpanMeaning meaning_of(std::string_view span_name) {
  for (const NamedMeaning& known : kMeanings) {
    if (known.name == span_name) return known.meaning;
  }
  return span_name.starts_with("wait") ? idle(Idle::other) : SpanMeaning{};
}

std::string_view feeder_of(std::string_view row) {
  for (const Feeding& feeding : kFeeders) {
    if (feeding.row == row) return feeding.feeder;
  }
  return {};
}

Idle waiting_for_work_of(std::string_view row) {
  if (row == "compute") return Idle::compute;
  return row == span_names::kOptimizer ? Idle::update : Idle::other;
}

bool uses_cores(std::string_view row, DeviceKind device) {
  return is_one_of(kThreads, row) || (device == DeviceKind::cpu && is_one_of(kStreams, row));
}

}  // namespace strata::engine
