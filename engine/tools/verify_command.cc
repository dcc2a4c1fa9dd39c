#include "engine/tools/verify_command.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/portable/verify.h"
#include "engine/tools/store_verification.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

constexpr int kExitDamaged = 1;

struct Verification {
  bool json_only = false;
  std::int64_t bytes = 0;
  std::int64_t damaged = 0;
  bool no_state = false;  // of a store: nothing to go on from
  nlohmann::json items = nlohmann::json::array();

  void say(const std::string& line) const {
    if (!json_only) fmt::print("{}\n", line);
  }
};

// "intact", "DAMAGED in 3 places".
std::string verdict_text(std::int64_t damaged) {
  return damaged == 0 ? "intact" : "DAMAGED in " + count_text(damaged, "place");
}

std::string store_text(const StoredTarget& target, const StoreVerification& result) {
  std::string text = target.name();
  if (!result.no_state.empty() && result.damaged == 0) {
    return text + ": it holds no state to go on from: " + result.no_state;
  }
  if (result.step) text += fmt::format(": step {}", *result.step);
  text += fmt::format(": {}", result.step || result.damaged > 0 ? verdict_text(result.damaged)
                                                                : "nothing to verify");
  if (!result.note.empty()) text += "; " + result.note;
  if (!result.intact_step) return text;
  if (result.damaged == 0) {
    return text + fmt::format("; the checkpoint of step {} is intact too", *result.intact_step);
  }
  return text + fmt::format("; the checkpoint of step {0} is intact: resume with --resume-step {0}",
                            *result.intact_step);
}

void verify(const StoredTarget& target, const io::EngineOptions& engine, WorkerSet& workers,
            Verification& all) {
  nlohmann::json damage = nlohmann::json::array();
  const StoreVerification result =
      verify_store(target, engine, workers, [&](const std::string& line) {
        all.say("damaged: " + line);
        damage.push_back(line);
      });
  all.say(store_text(target, result));
  all.bytes += result.bytes;
  all.damaged += result.damaged;
  all.no_state |= !result.no_state.empty();
  nlohmann::json json = {{"run_folder", target.run_folder},
                         {"run_id", target.run_id},
                         {"bytes", result.bytes},
                         {"damage", damage},
                         {"note", result.note.empty() ? result.no_state : result.note}};
  json["step"] = result.step ? nlohmann::json(*result.step) : nlohmann::json();
  json["other_intact_step"] =
      result.intact_step ? nlohmann::json(*result.intact_step) : nlohmann::json();
  all.items.push_back(json);
}

void verify(const std::string& portable_folder, Verification& all) {
  PortableVerification result;
  try {
    result = verify_portable(portable_folder);
  } catch (const Error& error) {
    result.damage.emplace_back(error.what());
  }
  for (const std::string& line : result.damage) all.say("damaged: " + line);
  all.say(fmt::format("{} {}: step {}: {}", kind_of(result.content), portable_folder, result.step,
                      verdict_text(std::ssize(result.damage))));
  all.bytes += result.bytes;
  all.damaged += std::ssize(result.damage);
  all.items.push_back({{"folder", portable_folder},
                       {"kind", kind_of(result.content)},
                       {"step", result.step},
                       {"bytes", result.bytes},
                       {"damage", result.damage}});
}

}  // namespace

void check_verify_options(const Options& options) {
  if (options.arguments.empty()) {
    throw ConfigError("verify: name a run's folder, a portable checkpoint, or directories");
  }
}

int run_verify(const Options& options) {
  const auto started = std::chrono::steady_clock::now();
  const StoredTargets targets = find_targets(options.arguments);
  if (targets.stores.empty() && targets.portable.empty() && targets.problems.empty()) {
    throw_error<ConfigError>(
        "verify: there is no store in {}; name a run's folder, a portable checkpoint "
        "(DIR/step-00000050), or directories with stores",
        fmt::join(options.arguments, ", "));
  }
  const io::EngineOptions engine{.kind = io::choose_engine(io::EngineKind::automatic).kind};
  const CpuShare share = cpu_share(0, 1);
  WorkerSet workers(share.threads, share.cpus);
  Verification all{.json_only = options.json};
  for (const StoredTarget& target : targets.stores) verify(target, engine, workers, all);
  for (const std::string& folder : targets.portable) verify(folder, all);
  for (const std::string& problem : targets.problems) all.say("damaged: " + problem);
  all.damaged += std::ssize(targets.problems);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  const double rate = static_cast<double>(all.bytes) / took.count() / 1e9;
  all.say(fmt::format(
      "{} in {:.1f} s, {:.2f} GB/s: {}", format_bytes(all.bytes), took.count(), rate,
      all.bytes == 0 && all.damaged == 0 ? "nothing to verify" : verdict_text(all.damaged)));
  if (options.json) {
    const nlohmann::json json = {{"verified", all.items},
                                 {"problems", targets.problems},
                                 {"bytes", all.bytes},
                                 {"seconds", took.count()},
                                 {"damaged", all.damaged}};
    fmt::print("{}\n", json_text(json));
  }
  return all.damaged == 0 && !all.no_state ? 0 : kExitDamaged;
}

}  // namespace strata::engine
