#include "engine/data/token_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::int32_t kLlmcMagic = 20240520;        // uint16 tokens, version 1
constexpr std::int32_t kLlmcLlama3Magic = 20240801;  // uint32 tokens, version 7
constexpr std::int32_t kLlmcVersion = 1;
constexpr std::int64_t kLlmcHeaderBytes = 1024;
constexpr std::int64_t kByteVocabulary = 256;
constexpr std::size_t kReadBytes = 8192;  // of one pread, on the stack

// A regular file opened for reading; move-only, reads are thread-safe.
class InputFile {
 public:
  // Throws ConfigError.
  explicit InputFile(std::string path) : path_(std::move(path)) {
    // O_NONBLOCK: a pipe without a writer is refused below, not waited for.
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) {
      throw_error<ConfigError>("cannot open the token file '{}': {}", path_, std::strerror(errno));
    }
    struct stat status {};
    const bool known = ::fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw_error<ConfigError>("'{}' is {}; name one file of tokens or text", path_,
                               known && S_ISDIR(status.st_mode) ? "a directory" : "not a file");
    }
    bytes_ = status.st_size;
  }
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }

  // Throws IoError; the end of the file is one.
  void read(std::int64_t offset, std::span<std::byte> destination) const {
    while (!destination.empty()) {
      const ssize_t got = ::pread(descriptor_, destination.data(), destination.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw_error<IoError>("read {} bytes at {} of '{}': {}", destination.size(), offset, path_,
                             got < 0 ? std::strerror(errno) : "the file has become shorter");
      }
      destination = destination.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

// Where the tokens of a file lie: little-endian unsigned integers of 1 or 2 bytes.
struct TokenLayout {
  const char* name;
  std::int64_t offset_bytes;
  std::int64_t token_bytes;
  std::int64_t tokens;
};

class TokenFile final : public TokenSource {
 public:
  TokenFile(InputFile file, TokenLayout layout, std::int64_t vocabulary)
      : file_(std::move(file)), layout_(layout), vocabulary_(vocabulary) {}

  std::int64_t tokens() const override { return layout_.tokens; }

  std::string description() const override {
    return fmt::format("{} {}", with_separators(layout_.tokens), layout_.name);
  }

  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    STRATA_CHECK(first >= 0 && static_cast<std::int64_t>(ids.size()) <= layout_.tokens - first);
    alignas(std::uint16_t) std::array<std::byte, kReadBytes> chunk;
    const auto token_bytes = static_cast<std::size_t>(layout_.token_bytes);
    while (!ids.empty()) {
      const std::size_t count = std::min(ids.size(), kReadBytes / token_bytes);
      file_.read(layout_.offset_bytes + first * layout_.token_bytes,
                 std::span(chunk).first(count * token_bytes));
      if (token_bytes == 1) {
        decode<std::uint8_t>(chunk.data(), first, ids.first(count));
      } else {
        decode<std::uint16_t>(chunk.data(), first, ids.first(count));
      }
      ids = ids.subspan(count);
      first += static_cast<std::int64_t>(count);
    }
  }

 private:
  template <typename Token>
  void decode(const std::byte* bytes, std::int64_t first, std::span<std::int32_t> ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Token token;
      std::memcpy(&token, bytes + i * sizeof(Token), sizeof(Token));
      if (token >= vocabulary_) {
        throw_error<FormatError>(
            "'{}': id {} at position {} is outside the model's vocabulary of {}; the file was made "
            "with another tokenizer",
            file_.path(), token, first + static_cast<std::int64_t>(i), vocabulary_);
      }
      ids[i] = token;
    }
  }

  InputFile file_;
  TokenLayout layout_;
  std::int64_t vocabulary_;
};

class TokenSlice final : public TokenSource {
 public:
  TokenSlice(const TokenSource& whole, std::int64_t first, std::int64_t count)
      : whole_(whole), first_(first), count_(count) {}

  std::int64_t tokens() const override { return count_; }
  std::string description() const override {
    return fmt::format("{} from {} on of {}", with_separators(count_), with_separators(first_),
                       whole_.description());
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    STRATA_CHECK(first >= 0 && static_cast<std::int64_t>(ids.size()) <= count_ - first);
    whole_.read(first_ + first, ids);
  }

 private:
  const TokenSource& whole_;
  std::int64_t first_;
  std::int64_t count_;
};

struct LlmcHeader {
  std::int32_t magic;
  std::int32_t version;
  std::int32_t tokens;
};

// The first 12 bytes; a shorter file has no magic.
LlmcHeader read_header(const InputFile& file) {
  LlmcHeader header{};
  if (file.bytes() >= static_cast<std::int64_t>(sizeof(header))) {
    file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  }
  return header;
}

TokenLayout llmc_layout(const InputFile& file, const LlmcHeader& header) {
  if (header.magic != kLlmcMagic || header.version != kLlmcVersion) {
    throw_error<FormatError>(
        "'{}' is an llm.c token file with magic {} version {}; Strata reads magic {} version {} "
        "(uint16 tokens)",
        file.path(), header.magic, header.version, kLlmcMagic, kLlmcVersion);
  }
  const std::int64_t expected_bytes = kLlmcHeaderBytes + 2 * std::int64_t{header.tokens};
  if (header.tokens < 0 || file.bytes() != expected_bytes) {
    throw_error<FormatError>(
        "'{}' is damaged: its llm.c header promises {} tokens, {} bytes in all, but it has {} "
        "bytes",
        file.path(), header.tokens, expected_bytes, file.bytes());
  }
  return {"llm.c tokens", kLlmcHeaderBytes, 2, header.tokens};
}

TokenLayout nanogpt_layout(const InputFile& file) {
  if (file.bytes() % 2 != 0) {
    throw_error<FormatError>(
        "'{}' has an odd number of bytes ({}), so it is not a nanoGPT file of uint16 tokens",
        file.path(), file.bytes());
  }
  return {"nanoGPT tokens", 0, 2, file.bytes() / 2};
}

TokenLayout text_layout(const InputFile& file, std::int64_t vocabulary) {
  if (vocabulary != kByteVocabulary) {
    throw_error<ConfigError>(
        "'{}': a text file needs a byte-level model (vocabulary {}), this model has {}; tokenize "
        "it first",
        file.path(), kByteVocabulary, vocabulary);
  }
  return {"bytes of text", 0, 1, file.bytes()};
}

TokenLayout detect_layout(const InputFile& file, std::int64_t vocabulary) {
  const LlmcHeader header = read_header(file);
  if (header.magic == kLlmcMagic || header.magic == kLlmcLlama3Magic) {
    return llmc_layout(file, header);
  }
  return file.path().ends_with(".bin") ? nanogpt_layout(file) : text_layout(file, vocabulary);
}

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const std::string& path, std::int64_t vocabulary) {
  InputFile file(path);
  const TokenLayout layout = detect_layout(file, vocabulary);
  if (layout.tokens == 0) throw_error<ConfigError>("'{}' holds no tokens", path);
  return std::make_unique<TokenFile>(std::move(file), layout, vocabulary);
}

std::unique_ptr<TokenSource> slice_tokens(const TokenSource& whole, std::int64_t first,
                                          std::int64_t count) {
  STRATA_CHECK(first >= 0 && count >= 0 && first <= whole.tokens() - count);
  return std::make_unique<TokenSlice>(whole, first, count);
}

}  // namespace strata::engine
