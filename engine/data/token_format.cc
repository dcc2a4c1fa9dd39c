#include "engine/data/token_format.h"

#include <cstring>

#include "kernels/base/error.h"

namespace strata::engine {
namespace {

template <typename Token>
std::int64_t load(const std::byte* bytes) {
  Token token;
  std::memcpy(&token, bytes, sizeof(token));
  return token;
}

}  // namespace

std::int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return 1;
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::uint32:
      return 4;
  }
  STRATA_CHECK(false, "token type {}", static_cast<int>(type));
}

std::int64_t load_token(TokenType type, const std::byte* bytes) {
  switch (type) {
    case TokenType::uint8:
      return load<std::uint8_t>(bytes);
    case TokenType::uint16:
      return load<std::uint16_t>(bytes);
    case TokenType::int32:
      return load<std::int32_t>(bytes);
    case TokenType::uint32:
      return load<std::uint32_t>(bytes);
  }
  STRATA_CHECK(false, "token type {}", static_cast<int>(type));
}

}  // namespace strata::engine
