// Options: everything a user can set, in one struct with its defaults, filled through the one
// option list (option_list.h) from the command line and config files. No other code parses or
// defaults them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::engine {

// How often a run commits its state: every so many steps, or every so many seconds; never when both
// are 0.
struct CheckpointInterval {
  std::int64_t steps = 0;
  double seconds = 0;

  bool never() const { return steps == 0 && seconds == 0; }
};
inline constexpr CheckpointInterval kDefaultCheckpointInterval{0, 30 * 60};

// What --allow-change calls the arithmetic recorded with a run.
inline constexpr const char* kArithmeticChange = "arithmetic";

// "auto" is an empty optional wherever a value can be chosen by the program.
struct Options {
  std::vector<std::string> arguments;  // what stands beside options: folders
  std::vector<std::string> given;      // options that were set, not those recorded with a run

  // model, data
  std::string model;
  std::string data;
  std::string val_data;
  double val_fraction = 0;
  bool from_scratch = false;       // random weights where published ones belong to it
  bool pack = false;               // several documents in a sequence
  std::string overlong = "error";  // drop, truncate, error: documents longer than a sequence

  // tiers
  std::string device = "auto";                // auto, cpu, cuda
  std::optional<std::int64_t> device_memory;  // bytes
  std::optional<std::int64_t> host_memory;    // bytes, per machine
  std::string nvme;                           // "DIR[=7GB/s],…"; empty: the run's folder
  std::string place;                          // "weights=host,moments=nvme,…"
  int prefetch = 2;                           // units read ahead
  std::optional<std::int64_t> chunk_size;     // bytes of one optimizer transfer, in f32
  std::string activations = "auto";           // auto, device, host, nvme
  bool recompute = true;

  std::string machine;                        // file of a described one; empty: this one

  // batch
  std::int64_t global_batch = 8;  // sequences per step over all ranks
  std::int64_t micro_batch = 1;
  std::optional<std::int64_t> pass;     // micro-batches per pass; auto: all of the step
  std::optional<std::int64_t> seq_len;  // auto: the model's context
  std::int64_t steps = 0;               // 0: not given
  double epochs = 0;                    // 0: not given

  // optimizer
  std::string optimizer = "adamw";  // adamw, adam, lion
  double lr = 3e-4;
  std::string lr_schedule = "cosine";  // cosine, linear, constant, wsd
  std::string warmup = "0";            // steps, or percent of all steps: "3%"
  double min_lr = 0;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip_norm = 1.0;             // 0: off
  std::vector<std::string> no_decay;  // patterns, besides biases and norms
  std::vector<std::string> lr_scale;  // "PATTERN=X"
  std::string moments = "f32";        // f32, bf16, int8
  std::string grad_dtype = "f32";     // f32, bf16
  std::string on_nonfinite = "stop";  // stop, skip

  // arithmetic
  std::string precision = "bf16";     // bf16, f32
  std::string matmul_dtype = "auto";  // auto, bf16, f32
  std::string isa = "auto";           // auto, avx512, avx2, scalar
  std::optional<int> threads;
  std::uint64_t seed = 1337;

  // run
  std::string run;  // folder; empty: nothing is kept
  bool resume = false;
  std::optional<std::int64_t> resume_step;  // auto: the newest commit
  std::string resume_from;                  // a portable checkpoint; empty: none
  std::vector<std::string> allow_change;    // options of the mathematics, or kArithmeticChange
  std::optional<CheckpointInterval> checkpoint_every;  // unset: kDefaultCheckpointInterval
  std::string checkpoint_to;         // folder of portable checkpoints; empty: none
  std::int64_t checkpoint_keep = 2;  // portable checkpoints
  std::string export_to;             // --export: folder; empty: none
  std::int64_t export_every = 0;     // steps; 0: at the end only
  std::int64_t export_keep = 2;      // of those made during training
  double stop_within = 20;           // seconds

  // exporting
  bool with_optimizer = false;
  std::int64_t max_shard_size = 5'000'000'000;  // bytes
  std::string export_dtype = "auto";            // auto, bf16, f32

  // removing stores
  bool dry_run = false;
  bool force = false;

  // generating
  std::string prompt;                 // text
  std::string prompt_ids;             // "1,2,3"
  std::int64_t max_tokens = 256;      // to generate
  double temperature = 0.8;           // 0: the likeliest token
  std::int64_t top_k = 40;            // 0: all
  double top_p = 1;                   // 1: all
  std::vector<std::string> stop_ids;  // empty: the model's end tokens

  // watching
  std::int64_t eval_every = 0;     // steps; 0: only at start and end
  std::int64_t eval_batches = 16;  // micro-batches; 0: all
  std::int64_t sample_every = 0;
  std::int64_t sample_tokens = 0;
  std::string sample_prompt = "\n";
  std::string log;
  std::string trace;
  bool profile = false;
  std::string output;  // of report; empty: in the run's folder
  bool json = false;

  // limits
  std::string io_engine = "auto";  // auto, uring, threads
  std::string nvme_endurance;      // "600TBW,…", for each directory of nvme
  double io_timeout = 30;          // seconds
  double comm_timeout = 300;       // seconds

  // tuning
  std::vector<std::string> vary = {"micro-batch", "pass"};
  int plans = 5;  // to show
  bool measure = false;
  bool refresh = false;

  // benchmark
  std::vector<std::string> blocks = {"64KiB", "256KiB", "1MiB", "4MiB"};
  std::vector<std::string> depths = {"1", "4", "16"};
  std::vector<std::string> modes = {"read", "write", "mixed"};
  std::optional<std::int64_t> file_size;  // bytes
  double cell_seconds = 1.2;
  bool checksums = true;
  std::int64_t elements = 100'000'000;
  std::vector<std::string> variants;  // empty: all
};

// Whether the option was set where the program was started, to whatever value.
bool is_given(const Options& options, std::string_view name);

}  // namespace strata::engine
