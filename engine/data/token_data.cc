#include "engine/data/token_data.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "engine/data/data_paths.h"
#include "engine/data/token_files.h"
#include "engine/data/token_format.h"
#include "engine/data/token_metadata.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

// A file of tokens with its companions.
struct CompanionedFile {
  TokenFile tokens;
  std::optional<TokenMask::File> mask;
  std::optional<DocumentFile> documents;
  DocumentsFrom documents_from = DocumentsFrom::nothing;
};

TokenLayout layout_of(const InputFile& file, std::int64_t vocabulary) {
  if (const auto layout = llmc_layout(file)) return *layout;
  return file.path().ends_with(".bin") ? nanogpt_layout(file) : text_layout(file, vocabulary);
}

// Also of what cannot be opened, such as a link to nothing: that is not to be passed by.
bool has_entry(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

// "NAME" + `extension` beside NAME.bin.
std::string companion_path(std::string_view tokens, std::string_view extension) {
  if (tokens.ends_with(".bin")) tokens.remove_suffix(4);
  return std::string(tokens).append(extension);
}

void open_companions(CompanionedFile& file) {
  const std::string& path = file.tokens.entry.path;
  const std::int64_t tokens = file.tokens.layout.tokens;
  if (const std::string mask = companion_path(path, ".mask"); has_entry(mask)) {
    file.mask = open_mask(mask, tokens);
  }
  if (const std::string documents = companion_path(path, ".docs"); has_entry(documents)) {
    file.documents = open_documents(documents, tokens);
    file.documents_from = DocumentsFrom::docs_files;
  }
}

CompanionedFile open_file(const std::string& path, std::int64_t vocabulary) {
  CompanionedFile result;
  if (const auto megatron = megatron_paths(path)) {
    const InputFile index(megatron->index);
    const InputFile tokens(megatron->tokens);
    MegatronLayout layout = megatron_layout(index, tokens);
    result.tokens = {{megatron->tokens, tokens.identity()}, layout.tokens};
    result.documents = std::move(layout.documents);
    result.documents_from = DocumentsFrom::megatron;
  } else {
    const InputFile file(path);
    result.tokens = {{path, file.identity()}, layout_of(file, vocabulary)};
  }
  if (result.tokens.layout.tokens == 0) throw_error<ConfigError>("'{}' holds no tokens", path);
  open_companions(result);
  return result;
}

// Nothing in token files says which tokenizer made them, but their formats go with one.
void require_one_format(const TokenFile& first, const TokenFile& file) {
  if (std::string_view(first.layout.format) == file.layout.format) return;
  throw_error<ConfigError>(
      "'{}' holds {}, but '{}' holds {}: the files of one list must have one format, as ids of "
      "different formats may not mean the same",
      first.entry.path, first.layout.format, file.entry.path, file.layout.format);
}

void require_same_companions(const CompanionedFile& first, const CompanionedFile& file) {
  const auto require = [&](bool of_first, bool of_file, std::string_view extension) {
    if (of_first == of_file) return;
    const std::string& with = (of_first ? first : file).tokens.entry.path;
    const std::string& without = (of_first ? file : first).tokens.entry.path;
    throw_error<ConfigError>(
        "'{}' has a {} beside it, but '{}' has none: all files of one list have one, or none has",
        with, extension, without);
  };
  require(first.mask.has_value(), file.mask.has_value(), ".mask");
  require(first.documents_from == DocumentsFrom::docs_files,
          file.documents_from == DocumentsFrom::docs_files, ".docs");
}

std::vector<CompanionedFile> open_files(const std::string& names, std::int64_t vocabulary) {
  std::vector<CompanionedFile> files;
  std::map<FileIdentity, std::string> name_of;
  for (const std::string& path : expand_data_paths(names)) {
    CompanionedFile file = open_file(path, vocabulary);
    const auto [known, is_new] = name_of.emplace(file.tokens.entry.identity, path);
    if (!is_new) {
      throw_error<ConfigError>(
          "'{}' and '{}' name the same tokens; name each file once, and of a Megatron pair the "
          ".idx",
          known->second, path);
    }
    files.push_back(std::move(file));
    require_one_format(files.front().tokens, files.back().tokens);
    require_same_companions(files.front(), files.back());
  }
  return files;
}

template <typename T, typename Member>
std::vector<T> each(const std::vector<CompanionedFile>& files, Member member) {
  std::vector<T> result;
  for (const CompanionedFile& file : files) result.push_back(std::invoke(member, file));
  return result;
}

// What the NAME.json of each file says, where there is one.
void read_metadata(const std::vector<CompanionedFile>& files, TokenData& data) {
  data.trained_tokens = 0;
  for (const CompanionedFile& file : files) {
    const TokenLayout& layout = file.tokens.layout;
    if (layout.type == TokenType::uint8) continue;  // text
    const std::string& path = file.tokens.entry.path;
    CompanionCounts counts{layout.tokens, std::nullopt, file.mask.has_value()};
    if (file.documents) counts.documents = file.documents->documents;
    const auto metadata = read_token_metadata(companion_path(path, ".json"), counts);
    data.tokenizers.push_back({path, metadata ? metadata->tokenizer : ""});
    if (!metadata) {
      data.trained_tokens.reset();
    } else if (data.trained_tokens) {
      *data.trained_tokens += metadata->trained_tokens;
    }
  }
  if (data.tokenizers.empty()) data.trained_tokens.reset();
}

}  // namespace

TokenData open_token_data(const std::string& names, std::int64_t vocabulary) {
  const std::vector<CompanionedFile> files = open_files(names, vocabulary);
  TokenData data;
  data.tokens =
      std::make_unique<TokenFiles>(each<TokenFile>(files, &CompanionedFile::tokens), vocabulary);
  if (files.front().mask) {
    data.mask = std::make_unique<TokenMask>(
        each<TokenMask::File>(files, [](const CompanionedFile& file) { return *file.mask; }));
  }
  data.documents_from = files.front().documents_from;
  if (files.front().documents) {
    data.documents = std::make_unique<DocumentIndex>(
        each<DocumentFile>(files, [](const CompanionedFile& file) { return *file.documents; }));
  }
  read_metadata(files, data);
  return data;
}

void read_rows(const TokenSource& source, const TokenMask* mask, std::int64_t first,
               std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  source.read(first, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  source.read(first + std::ssize(tokens), targets.last(1));
  if (mask != nullptr) mask->ignore_untrained(first + 1, targets);
}

}  // namespace strata::engine
