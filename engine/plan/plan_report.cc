#include "engine/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/options/count_text.h"
#include "engine/options/option_check.h"
#include "engine/plan/write_forecast.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using offload::Link;
using offload::Phase;
using offload::PhaseTraffic;
using offload::Plan;
using offload::Tier;

namespace {

constexpr std::array<Tier, offload::kTiers> kAllTiers = {Tier::device, Tier::host, Tier::nvme};

// Rows of the table, in order of first appearance over the tiers: states first.
std::vector<std::string> kinds_of(const Plan& plan) {
  std::vector<std::string> kinds;
  const auto add = [&](const std::string& tag) {
    if (std::find(kinds.begin(), kinds.end(), tag) == kinds.end()) kinds.push_back(tag);
  };
  for (int k = 0; k < offload::kStateKinds; ++k) {
    const char* const name = name_of(static_cast<offload::StateKind>(k));
    for (const offload::PlannedBuffer& buffer : plan.buffers) {
      if (buffer.tag == name) add(name);
    }
  }
  add("activations");
  for (const offload::PlannedBuffer& buffer : plan.buffers) add(buffer.tag);
  return kinds;
}

std::int64_t bytes_of_tag(const Plan& plan, Tier tier, const std::string& tag) {
  for (const offload::PlannedBuffer& buffer : plan.buffers) {
    if (buffer.tier == tier && buffer.tag == tag) return buffer.bytes;
  }
  return 0;
}

std::string cell(std::int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

std::string budget_cell(const Plan& plan, Tier tier) {
  if (tier == Tier::nvme) return "-";
  return format_bytes(tier == Tier::device ? plan.device_memory_bytes : plan.host_memory_bytes);
}

}  // namespace

std::string run_description(const RunSetup& setup) {
  const BatchLayout& batch = setup.batch;
  const bool deferred = setup.plan.update == offload::UpdateTime::deferred;
  const char* const timing =
      deferred
          ? "deferred: each unit is updated before its next use, once the gradient norm is known"
          : "in backward: each unit is updated as soon as its gradient is final";
  return fmt::format(
      "model      {}: {} parameters, {}, hidden {}, {}, context {}, vocabulary {}\n"
      "batch      {} of {} per step; micro-batch {}, {} of up to {}\n"
      "optimizer  {}, {}\n",
      setup.model.name, with_separators(setup.model.parameters()),
      count_text(setup.model.layers, "layer"), setup.model.hidden,
      count_text(setup.model.heads, "head"), setup.model.context,
      with_separators(setup.model.vocabulary), count_text(batch.global_batch, "sequence"),
      count_text(batch.seq_len, "token"), batch.micro_batch,
      count_text(batch.passes(), "pass", "passes"),
      count_text(batch.pass_micro_batches_max(), "micro-batch", "micro-batches"),
      setup.options.optimizer, timing);
}

std::string plan_table(const RunSetup& setup) {
  const Plan& plan = setup.plan;
  const bool several = plan.world_size > 1;
  std::string out =
      fmt::format("{:<24}{:>12}{:>12}{:>12}\n", several ? "bytes held by a rank" : "bytes held",
                  "device", "host", "NVMe");
  for (const std::string& kind : kinds_of(plan)) {
    out += fmt::format("  {:<22}", kind);
    for (const Tier tier : kAllTiers) {
      out += fmt::format("{:>12}", cell(bytes_of_tag(plan, tier, kind)));
    }
    out += '\n';
  }
  out += fmt::format("{:<24}", "total");
  for (const Tier tier : kAllTiers) out += fmt::format("{:>12}", cell(plan.total_bytes(tier)));
  out += fmt::format("\n{:<24}", "budget");
  for (const Tier tier : kAllTiers) out += fmt::format("{:>12}", budget_cell(plan, tier));
  const int ranks = setup.topology.local_world_size;
  if (ranks > 1) {
    out += fmt::format("\n{:<24}", fmt::format("this host, {} ranks", ranks));
    for (const Tier tier : kAllTiers) {
      out += fmt::format("{:>12}", cell(ranks * plan.total_bytes(tier)));
    }
  }
  out += fmt::format("\n\n{:<24}{:>12}{:>12}\n",
                     several ? "moved per step by a rank" : "bytes moved per step", "forward",
                     "backward");
  for (int l = 0; l < offload::kLinks; ++l) {
    const auto link = static_cast<Link>(l);
    const std::int64_t forward = plan.phase(Phase::forward).bytes(link);
    const std::int64_t backward = plan.phase(Phase::backward).bytes(link);
    if (forward + backward == 0) continue;
    out += fmt::format("  {:<22}{:>12}{:>12}\n", name_of(link), cell(forward), cell(backward));
  }
  const std::int64_t start_bytes = forecast_writes(setup, 0).start_bytes;
  if (start_bytes > 0) {
    out += fmt::format("and {} written to NVMe at the start\n", format_bytes(start_bytes));
  }
  if (plan.commit_copy_bytes() > 0) {
    out += fmt::format("and {} copied to NVMe by each {}\n", format_bytes(plan.commit_copy_bytes()),
                       plan.durability == offload::Durability::commits ? "checkpoint" : "stop");
  }
  return out;
}

namespace {

// What "auto" and the defaults came to.
nlohmann::json resolved_json(const RunSetup& setup) {
  return {{"device", device_name(setup)},
          {"device_memory_bytes", setup.plan.device_memory_bytes},
          {"host_memory_bytes", setup.plan.host_memory_bytes},
          {"threads", setup.threads},
          {"seq_len", setup.batch.seq_len},
          {"micro_batch", setup.batch.micro_batch},
          {"pass", setup.batch.pass_size},
          {"isa", name_of(setup.isa)},
          {"precision", setup.options.precision}};
}

}  // namespace

nlohmann::json plan_json(const RunSetup& setup) {
  const Plan& plan = setup.plan;
  nlohmann::json json;
  json["fits"] = true;
  json["resolved"] = resolved_json(setup);
  json["world_size"] = plan.world_size;
  json["parameters"] = setup.model.parameters();
  json["update"] = plan.update == offload::UpdateTime::deferred ? "deferred" : "in_backward";
  json["passes"] = plan.passes;
  json["prefetch"] = plan.prefetch;
  json["activations"] = name_of(plan.activations);
  json["chunk_elements"] = plan.chunk_elements;
  for (const Tier tier : kAllTiers) {
    nlohmann::json& entry = json["tiers"][name_of(tier)];
    entry["total_bytes"] = plan.total_bytes(tier);
    if (tier == Tier::device) entry["budget_bytes"] = plan.device_memory_bytes;
    if (tier == Tier::host) entry["budget_bytes"] = plan.host_memory_bytes;
    for (const offload::PlannedBuffer& buffer : plan.buffers) {
      if (buffer.tier == tier) entry["bytes"][buffer.tag] = buffer.bytes;
    }
  }
  for (const auto& [name, phase] :
       {std::pair("forward", Phase::forward), std::pair("backward", Phase::backward)}) {
    const PhaseTraffic& traffic = plan.phase(phase);
    nlohmann::json& entry = json["per_step"][name];
    for (int l = 0; l < offload::kLinks; ++l) {
      entry[key_of(static_cast<Link>(l))] = traffic.bytes(static_cast<Link>(l));
    }
    traffic.moved.for_each([&](Link link, offload::MovedKind kind, std::int64_t bytes) {
      entry["by_kind"][key_of(link)][name_of(kind)] = bytes;
    });
  }
  json["start"]["nvme_written_bytes"] = forecast_writes(setup, 0).start_bytes;
  if (plan.durability == offload::Durability::commits) {
    json["checkpoint"] = {{"copied_bytes", plan.commit_copy_bytes()},
                          {"metadata_bytes", plan.commit_metadata_bytes()}};
  }
  for (const offload::UnitPlan& unit : plan.units) {
    nlohmann::json entry = {
        {"name", unit.name}, {"elements", unit.elements}, {"shard_elements", unit.shard_elements}};
    for (int k = 0; k < offload::kStateKinds; ++k) {
      const auto kind = static_cast<offload::StateKind>(k);
      entry["tiers"][name_of(kind)] = name_of(unit.tier(kind));
    }
    json["units"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace strata::engine
