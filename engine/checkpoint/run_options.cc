#include "engine/checkpoint/run_options.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/options/config_file.h"
#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "engine/portable/index.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

// A number or boolean where that is what the text says, exactly; otherwise a string.
nlohmann::ordered_json json_value(const std::string& text) {
  const auto value = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_plain = value.is_number() || value.is_boolean();
  return is_plain && value.dump() == text ? value : nlohmann::ordered_json(text);
}

// What another run's place and memory were is not this run's business.
bool is_taken_over(const OptionSpec& spec) {
  return !spec.of_a_rank && spec.group != OptionGroup::tiers && spec.group != OptionGroup::run &&
         spec.group != OptionGroup::limits;
}

Options options_of_portable(const std::string& folder) {
  const PortableIndex index = read_portable_index(folder);
  require_training_state(index, folder);
  const std::string path = (fs::path(folder) / kPortableIndexFile).string();
  Options options;
  for (const ConfigEntry& entry : parse_config(index.origin.options.dump(), path)) {
    for (const OptionSpec& spec : option_list()) {
      if (spec.name == entry.key && is_taken_over(spec)) spec.set(options, entry.value);
    }
  }
  return options;
}

// Without a model it is probably meant to go on: says what it lacks for that.
void require_a_beginning(const Options& given, bool has_run) {
  if (has_run) {
    throw_error<ConfigError>("--run {}: there is a run in it: add --resume to go on with it",
                             given.run);
  }
  if (given.resume && !given.run.empty()) {
    throw_error<ConfigError>(
        "--run {}: there is no run in it yet, so this begins one: --model is missing", given.run);
  }
}

}  // namespace

std::string run_options_json(const Options& options) {
  nlohmann::ordered_json object;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(CommandKind::train) || spec.of_a_start) continue;
    object[spec.name] = spec.is_flag ? nlohmann::ordered_json(spec.get(options) == "on")
                                     : json_value(recorded_value(spec, options));
  }
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<RecordedOptions> recorded_options(const Options& given) {
  const fs::path path = fs::path(given.run) / kRunOptionsFile;
  const bool has_run = !given.run.empty() && fs::exists(path);
  if (has_run && given.resume) {
    Options options = parse_options({"train", "", CommandKind::train}, {"--config", path.string()});
    if (options.device == "auto") options.device = "cpu";  // of builds that had no other
    return RecordedOptions{std::move(options), "--run " + given.run};
  }
  if (!given.resume_from.empty()) {
    Options options = options_of_portable(given.resume_from);
    options.device = given.device;  // of no machine in particular
    return RecordedOptions{std::move(options), "--resume-from " + given.resume_from};
  }
  if (given.model.empty()) require_a_beginning(given, has_run);
  return std::nullopt;
}

}  // namespace strata::engine
