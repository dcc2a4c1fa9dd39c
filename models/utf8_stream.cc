#include "models/utf8_stream.h"

#include <cstdint>

namespace strata::models {

namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

std::uint8_t byte_of(char c) { return static_cast<std::uint8_t>(c); }

// Bytes of the character that begins so; 0: none does.
std::size_t character_bytes(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // no first byte, or longer than need be
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// The second byte also excludes longer forms than need be, surrogates, and what is above U+10FFFF.
bool may_be_second(std::uint8_t first, std::uint8_t second) {
  const std::uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

bool may_follow(std::string_view begun, std::uint8_t next) {
  if (begun.size() == 1) return may_be_second(byte_of(begun[0]), next);
  return (next & 0xC0) == 0x80;
}

}  // namespace

std::string Utf8Stream::add(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    if (!pending_.empty() && !may_follow(pending_, byte_of(c))) text += finish();
    pending_ += c;
    const std::size_t wanted = character_bytes(byte_of(pending_[0]));
    if (wanted == 0) {
      text += finish();
    } else if (pending_.size() == wanted) {
      text += pending_;
      pending_.clear();
    }
  }
  return text;
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace strata::models
