#include "engine/options/option_list_builder.h"

namespace strata::engine {

void add_run(ListBuilder& list) {
  list.group(OptionGroup::run);
  list.mathematical(false);
  list.used_by(kTrainAndPlan);
  list.add("run", "Folder for the run's options, plan, log and state: a new one, or see --resume",
           text_field("DIR", &Options::run), {"output_dir", "out_dir", "run_dir"})
      .paths = OptionPaths::folder;
  list.add(
      "checkpoint-every",
      "Steps or time (s, min, h) from one checkpoint of the state to the next; 0 keeps it only "
      "where the run stops, in half the space",
      interval_field(&Options::checkpoint_every),
      {"save_steps", "save_interval", "save_every", "checkpoint_interval"});
  list.used_by(kTrain);
  const auto add_of_a_start = [&](std::string name, std::string help,
                                  OptionField field) -> OptionSpec& {
    OptionSpec& spec = list.add(std::move(name), std::move(help), std::move(field));
    spec.of_a_start = true;
    return spec;
  };
  OptionSpec& resume =
      add_of_a_start("resume",
                     "Go on with the run in the folder of --run, with its options where no others "
                     "are given; begins it where there is none yet",
                     switch_field(&Options::resume));
  resume.is_flag = true;
  resume.used_by = kTrainAndPlan;
  resume.help_of = {{CommandKind::plan,
                     "Plan with the options of the run in the folder of --run where no others are "
                     "given"}};
  add_of_a_start("resume-step", "Step of the checkpoint to go on from; auto is the newest",
                 integer_field(&Options::resume_step));
  add_of_a_start(
      "resume-from",
      "Begin with the weights, moments and step of a portable checkpoint; with --resume, "
      "where the folder has no run yet",
      text_field("DIR", &Options::resume_from))
      .paths = OptionPaths::folder;
  add_of_a_start("allow-change",
                 "Options that may differ from the run's although its weights then will, such as "
                 "lr; arithmetic: where this machine lacks the recorded one",
                 list_field("NAME,...", &Options::allow_change));
  list.add("checkpoint-to",
           "Folder for portable checkpoints: copies of the run's, made while training goes on",
           text_field("DIR", &Options::checkpoint_to))
      .paths = OptionPaths::folder;
  list.add("checkpoint-keep", "Portable checkpoints that are kept, the newest ones",
           integer_field(&Options::checkpoint_keep), {"save_total_limit"});
  list.add("export", "Write the trained model to this folder at the end, as Hugging Face has them",
           text_field("DIR", &Options::export_to))
      .paths = OptionPaths::folder;
  list.add("export-every",
           "Steps between snapshots of the model beside the folder of --export, DIR-step-00000100",
           integer_field(&Options::export_every));
  list.add("export-keep", "Snapshots of the model that are kept, the newest ones",
           integer_field(&Options::export_keep));
  list.add("stop-within",
           "How long the step under way may still take after a signal to stop; one that would "
           "take longer is dropped",
           duration_field(&Options::stop_within));
  list.used_by({CommandKind::gc});
  list.add("dry-run", "Show what would be removed, and remove nothing",
           switch_field(&Options::dry_run))
      .is_flag = true;
  list.add("force", "Remove stores that are damaged or whose run is gone, too",
           switch_field(&Options::force))
      .is_flag = true;
}

void add_exporting(ListBuilder& list) {
  list.group(OptionGroup::exporting);
  list.used_by({CommandKind::export_run});
  list.add("with-optimizer", "Write masters and moments too: a portable checkpoint to resume from",
           switch_field(&Options::with_optimizer))
      .is_flag = true;
  list.add("max-shard-size", "Size at which the weights go on in another file",
           size_field(&Options::max_shard_size));
  list.add("export-dtype", "Type of the weights; auto is the --precision of the run",
           choice_field({"auto", "bf16", "f32"}, &Options::export_dtype), {"torch_dtype"});
}

void add_watching(ListBuilder& list) {
  list.group(OptionGroup::watching);
  list.used_by(kTrainAndPlan);
  list.add("eval-every", "Steps between evaluations; 0 evaluates only at start and end",
           integer_field(&Options::eval_every), {"eval_steps", "eval_interval"});
  list.add("eval-batches", "Micro-batches of an evaluation; 0 is all of the validation data",
           integer_field(&Options::eval_batches), {"eval_iters"});
  list.used_by(kTrain);
  list.add("sample-every", "Steps between samples of generated text; 0 samples only at the end",
           integer_field(&Options::sample_every));
  list.add("sample-tokens", "Length of a sample; 0 generates none",
           integer_field(&Options::sample_tokens), {"max_new_tokens"});
  list.add("sample-prompt",
           "Text that a sample of a byte-level model goes on from, with \\n for a new line",
           escaped_text_field("TEXT", &Options::sample_prompt));
  OptionSpec& log = list.add(
      "log",
      "Append one JSON line per step to this file, besides the log of --run; with --resume, "
      "steps that are computed again stand in it twice",
      text_field("FILE", &Options::log), {"log_file"});
  log.of_a_rank = true;
  log.paths = OptionPaths::file;
  OptionSpec& trace =
      list.add("trace",
               "Write a Chrome trace of streams and threads to this file, or with several ranks to "
               "FILE.RANK",
               text_field("FILE", &Options::trace));
  trace.of_a_rank = true;
  trace.paths = OptionPaths::file;
  OptionSpec& profile = list.add(
      "profile",
      "Show at the end where the time of the median and the slowest step went, and what limits the "
      "run",
      switch_field(&Options::profile));
  profile.of_a_rank = true;
  profile.is_flag = true;
  list.used_by({CommandKind::report});
  list.add("output", "File to write the page to; unset, report.html in the run's folder",
           text_field("FILE", &Options::output))
      .paths = OptionPaths::file;
  list.used_by({CommandKind::train, CommandKind::plan, CommandKind::tune, CommandKind::inspect,
                CommandKind::verify, CommandKind::export_run, CommandKind::gc, CommandKind::doctor,
                CommandKind::bench_io, CommandKind::bench_optimizer});
  list.add("json", "Progress and results as JSON on standard output", switch_field(&Options::json))
      .is_flag = true;
}

}  // namespace strata::engine
