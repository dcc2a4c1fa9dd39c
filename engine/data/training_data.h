// TrainingData: the samples of a run: what is trained on and what is validated on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/data/data_digest.h"
#include "engine/data/samples.h"
#include "engine/data/token_data.h"
#include "engine/options/options.h"

namespace strata::engine {

struct TrainingData {
  TokenData file;                       // --data, whole
  DataDigest digest;                    // of that
  TokenData validation_file;            // --val-data; empty without it
  std::unique_ptr<Samples> train;       // what is trained on; null where there is no --data
  std::unique_ptr<Samples> validation;  // null: none

  std::string description() const;  // "99 llm.c tokens; to train on: 9 sequences"
};

// Opens --data and --val-data, or takes --val-fraction from the end of --data (of its documents,
// where they are samples). --pack and --overlong say what documents become. Throws ConfigError or
// FormatError, also when a part is shorter than one sequence or has an id outside the vocabulary
// (of a very large file a part is looked at), when no token is trained, and ConfigError where these
// options need documents of --data that are not known; --val-data without any is one stream then.
TrainingData open_training_data(const Options& options, std::int64_t vocabulary,
                                std::int64_t seq_len);

// check_tokenizer() (token_metadata.h) for all of the run's data, naming the option.
std::string check_tokenizer(const TrainingData& data, const std::string& expected);

}  // namespace strata::engine
