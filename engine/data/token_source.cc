#include "engine/data/token_source.h"

#include <map>
#include <string_view>
#include <vector>

#include "engine/data/data_paths.h"
#include "engine/data/token_files.h"
#include "engine/data/token_format.h"
#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

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
    STRATA_CHECK(first >= 0 && std::ssize(ids) <= count_ - first);
    whole_.read(first_ + first, ids);
  }

 private:
  const TokenSource& whole_;
  std::int64_t first_;
  std::int64_t count_;
};

TokenLayout layout_of(const InputFile& file, std::int64_t vocabulary) {
  if (const auto layout = llmc_layout(file)) return *layout;
  return file.path().ends_with(".bin") ? nanogpt_layout(file) : text_layout(file, vocabulary);
}

TokenFile open_file(const std::string& path, std::int64_t vocabulary) {
  if (const auto megatron = megatron_paths(path)) {
    const InputFile index(megatron->index);
    const InputFile tokens(megatron->tokens);
    return {{megatron->tokens, tokens.identity()}, megatron_layout(index, tokens)};
  }
  const InputFile file(path);
  return {{path, file.identity()}, layout_of(file, vocabulary)};
}

// Nothing in token files says which tokenizer made them, but their formats go with one.
void require_one_format(const TokenFile& first, const TokenFile& file) {
  if (std::string_view(first.layout.format) == file.layout.format) return;
  throw_error<ConfigError>(
      "'{}' holds {}, but '{}' holds {}: the files of one list must have one format, as ids of "
      "different formats may not mean the same",
      first.entry.path, first.layout.format, file.entry.path, file.layout.format);
}

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const std::string& names, std::int64_t vocabulary) {
  std::vector<TokenFile> files;
  std::map<FileIdentity, std::string> name_of;
  for (const std::string& path : expand_data_paths(names)) {
    TokenFile file = open_file(path, vocabulary);
    if (file.layout.tokens == 0) throw_error<ConfigError>("'{}' holds no tokens", path);
    const auto [known, is_new] = name_of.emplace(file.entry.identity, path);
    if (!is_new) {
      throw_error<ConfigError>(
          "'{}' and '{}' name the same tokens; name each file once, and of a Megatron pair the "
          ".idx",
          known->second, path);
    }
    files.push_back(std::move(file));
    require_one_format(files.front(), files.back());
  }
  return std::make_unique<TokenFiles>(files, vocabulary);
}

std::unique_ptr<TokenSource> slice_tokens(const TokenSource& whole, std::int64_t first,
                                          std::int64_t count) {
  STRATA_CHECK(first >= 0 && count >= 0 && first <= whole.tokens() - count);
  return std::make_unique<TokenSlice>(whole, first, count);
}

}  // namespace strata::engine
