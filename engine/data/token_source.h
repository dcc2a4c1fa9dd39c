// Token data: files as one sequence of token ids, read in windows so that data never counts against
// a budget. A sample is seq_len + 1 tokens starting at a multiple of seq_len; a source has
// (tokens - 1) / seq_len of them, visited in a SampleOrder (sample_order.h).
//
// Formats (docs/data.md), recognised by content and name: llm.c .bin, Megatron .idx and .bin,
// nanoGPT .bin, and text (any other file: one byte is one token, byte-level models only).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/data/sample_order.h"

namespace strata::engine {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t tokens() const = 0;
  // ids[i] = token first + i. Throws IoError, or FormatError naming file and position of an id
  // outside the vocabulary. Thread-safe, allocates nothing.
  virtual void read(std::int64_t first, std::span<std::int32_t> ids) const = 0;
  virtual std::string description() const = 0;  // "305,260 llm.c tokens"
};

// The files that a list of names and patterns stands for (data_paths.h), one after another. Throws
// ConfigError (missing, unreadable, named twice, of two formats, a text for a model with another
// vocabulary, …) or FormatError (a damaged header or index, a length that does not match it).
std::unique_ptr<TokenSource> open_tokens(const std::string& names, std::int64_t vocabulary);

// Part [first, first + count) of another source, which must outlive it.
std::unique_ptr<TokenSource> slice_tokens(const TokenSource& whole, std::int64_t first,
                                          std::int64_t count);

}  // namespace strata::engine
