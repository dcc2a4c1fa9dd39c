#include "engine/options/option_list.h"

#include <algorithm>
#include <filesystem>

#include "engine/options/option_list_builder.h"

namespace strata::engine {
namespace {

std::string absolute(std::string_view path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

std::vector<OptionSpec> build_list() {
  ListBuilder list;
  add_model_data(list);
  add_tiers(list);
  add_batch(list);
  add_optimizer(list);
  add_arithmetic(list);
  add_run(list);
  add_exporting(list);
  add_generating(list);
  add_watching(list);
  add_limits(list);
  add_tuning(list);
  add_benchmark(list);
  share_with_inference(list);
  return list.take();
}

}  // namespace

const std::vector<OptionSpec>& option_list() {
  static const std::vector<OptionSpec> list = build_list();
  return list;
}

Options default_options(CommandKind command) {
  Options options;
  if (command == CommandKind::eval) options.eval_batches = 0;
  return options;
}

bool is_given(const Options& options, std::string_view name) {
  return std::find(options.given.begin(), options.given.end(), name) != options.given.end();
}

std::vector<std::string_view> paths_in(const OptionSpec& option, std::string_view text) {
  if (option.paths == OptionPaths::none) return {};
  if (option.paths != OptionPaths::several) return {text};
  std::vector<std::string_view> paths;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    paths.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

std::string recorded_value(const OptionSpec& option, const Options& options) {
  const std::string value = option.get(options);
  if (option.paths == OptionPaths::none) return value;
  std::string recorded;
  for (const std::string_view path : paths_in(option, value)) {
    recorded += (path.data() == value.data() ? "" : ",") + absolute(path);
  }
  return recorded;
}

const char* title_of(OptionGroup group) {
  switch (group) {
    case OptionGroup::model_data:
      return "Model and data";
    case OptionGroup::tiers:
      return "Tiers";
    case OptionGroup::batch:
      return "Batch";
    case OptionGroup::optimizer:
      return "Optimizer";
    case OptionGroup::arithmetic:
      return "Arithmetic";
    case OptionGroup::run:
      return "Run";
    case OptionGroup::exporting:
      return "Export";
    case OptionGroup::generating:
      return "Generation";
    case OptionGroup::watching:
      return "Watching";
    case OptionGroup::limits:
      return "Limits";
    case OptionGroup::tuning:
      return "Tuning";
    case OptionGroup::benchmark:
      return "Benchmark";
  }
  return "";
}

}  // namespace strata::engine
