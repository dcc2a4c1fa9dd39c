// Token data: a file as a sequence of token ids, read in windows so that data never counts against
// a budget; and the order in which samples of it are visited.
//
// Formats, recognised by content and name: text (any other file: one byte is one token, byte-level
// models only), llm.c .bin (magic 20240520 version 1, uint16), nanoGPT .bin (headerless uint16).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace strata::engine {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t tokens() const = 0;
  // ids[i] = token first + i. Throws IoError, or FormatError naming file and position of an id
  // >= vocabulary. Thread-safe, allocates nothing.
  virtual void read(std::int64_t first, std::span<std::int32_t> ids) const = 0;
  virtual std::string description() const = 0;  // "llm.c tokens, 305,260"
};

// Throws ConfigError (missing, unreadable, a text for a model with another vocabulary, …) or
// FormatError (a damaged header, a length that does not match it).
std::unique_ptr<TokenSource> open_tokens(const std::string& path, std::int64_t vocabulary);

// Part [first, first + count) of another source, which must outlive it.
std::unique_ptr<TokenSource> slice_tokens(const TokenSource& whole, std::int64_t first,
                                          std::int64_t count);

// A sample is seq_len + 1 tokens starting at a multiple of seq_len; a source has
// (tokens - 1) / seq_len of them. SampleOrder is a seeded permutation of [0, samples), one per epoch,
// that needs no memory (a Feistel network with cycle walking): position p of the run is sample
// at(p); each sample occurs once in each epoch of `samples` positions.
class SampleOrder {
 public:
  SampleOrder(std::int64_t samples, std::uint64_t seed);
  std::int64_t at(std::int64_t position) const;
  std::int64_t epoch(std::int64_t position) const { return position / samples_; }
  std::int64_t samples() const { return samples_; }

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
};

}  // namespace strata::engine
