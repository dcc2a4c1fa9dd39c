// llm.c's .bin: a header of 256 int32 (magic, version, number of tokens), then the tokens.
#include <array>
#include <cstddef>
#include <span>

#include "engine/data/token_format.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kHeaderBytes = 1024;

struct Header {
  std::int32_t magic;
  std::int32_t version;
  std::int32_t tokens;
};

struct Variant {
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
  const char* format;
};
constexpr std::array<Variant, 2> kVariants = {{
    {20240520, 1, TokenType::uint16, "llm.c tokens"},
    {20240801, 7, TokenType::uint32, "llm.c uint32 tokens"},  // for Llama 3's vocabulary
}};

const Variant* variant_of(std::int32_t magic) {
  for (const Variant& variant : kVariants) {
    if (variant.magic == magic) return &variant;
  }
  return nullptr;
}

}  // namespace

std::optional<TokenLayout> llmc_layout(const InputFile& file) {
  Header header{};
  if (file.bytes() < static_cast<std::int64_t>(sizeof(header))) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  const Variant* const variant = variant_of(header.magic);
  if (variant == nullptr) return std::nullopt;
  if (header.version != variant->version) {
    throw_error<FormatError>(
        "'{}' is an llm.c token file with magic {} version {}; Strata reads version {}",
        file.path(), header.magic, header.version, variant->version);
  }
  const std::int64_t expected_bytes = kHeaderBytes + bytes_of(variant->type) * header.tokens;
  if (header.tokens < 0 || file.bytes() != expected_bytes) {
    throw_error<FormatError>(
        "'{}' is damaged: its llm.c header promises {} tokens, {} bytes in all, but it has {} "
        "bytes",
        file.path(), header.tokens, expected_bytes, file.bytes());
  }
  return TokenLayout{variant->format, variant->type, kHeaderBytes, header.tokens};
}

}  // namespace strata::engine
