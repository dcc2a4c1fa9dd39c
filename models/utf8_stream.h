// Utf8Stream: bytes, in pieces, as valid UTF-8: a character comes out when its last byte has gone
// in; what is no character comes out as U+FFFD, one for each longest beginning of a character, as
// Python's errors="replace", Rust's from_utf8_lossy and Unicode ("maximal subparts") have it.
//
// Thread contract: one thread.
// Source: The Unicode Standard 15, section 3.9, table 3-7.
#pragma once

#include <string>
#include <string_view>

namespace strata::models {

class Utf8Stream {
 public:
  // The characters that these bytes complete.
  std::string add(std::string_view bytes);

  // At the end: what is left of a character that is not complete.
  std::string finish();

 private:
  std::string pending_;  // the beginning of a character: at most 3 bytes
};

}  // namespace strata::models
