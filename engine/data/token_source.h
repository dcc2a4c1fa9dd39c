// TokenSource: files as one sequence of token ids, read in windows so that data never counts
// against a budget.
//
// Formats (docs/data.md), recognised by content and name: llm.c .bin, Megatron .idx and .bin,
// nanoGPT .bin, and text (any other file: one byte is one token, byte-level models only).
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

}  // namespace strata::engine
