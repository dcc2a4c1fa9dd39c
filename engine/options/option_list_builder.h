// How option_list.cc is put together: what is added after a call of group(), used_by() or
// mathematical() is so. The groups stand in option_list_*.cc, by what they are about.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/options/option_list.h"
#include "engine/options/option_values.h"

namespace strata::engine {

inline const CommandSet kTrain = {CommandKind::train};
inline const CommandSet kTrainAndPlan = {CommandKind::train, CommandKind::plan};

class ListBuilder {
 public:
  void group(OptionGroup group) { group_ = group; }
  void used_by(CommandSet used_by) { used_by_ = used_by; }
  void mathematical(bool mathematical) { mathematical_ = mathematical; }

  OptionSpec& add(std::string name, std::string help, OptionField field,
                  std::vector<std::string> aliases = {}) {
    OptionSpec& spec = list_.emplace_back(
        OptionSpec{std::move(name), group_, used_by_, std::move(field.value_hint), std::move(help),
                   std::move(aliases), std::move(field.set), std::move(field.get)});
    spec.mathematical = mathematical_;
    return spec;
  }

  // Of an option that is there: it is one of these commands, too, where its help may be another.
  void share(std::string_view name, CommandSet commands, std::string help = "");

  std::vector<OptionSpec> take() { return std::move(list_); }

 private:
  OptionGroup group_ = OptionGroup::model_data;
  CommandSet used_by_ = kTrainAndPlan;
  bool mathematical_ = false;
  std::vector<OptionSpec> list_;
};

void add_model_data(ListBuilder& list);
void add_tiers(ListBuilder& list);
void add_batch(ListBuilder& list);
void add_optimizer(ListBuilder& list);
void add_arithmetic(ListBuilder& list);
void add_run(ListBuilder& list);
void add_exporting(ListBuilder& list);
void add_generating(ListBuilder& list);
// Which options of the others eval and generate have.
void share_with_inference(ListBuilder& list);
void add_watching(ListBuilder& list);
void add_limits(ListBuilder& list);
void add_tuning(ListBuilder& list);
void add_benchmark(ListBuilder& list);

}  // namespace strata::engine
