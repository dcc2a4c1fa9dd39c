#include "engine/plan/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/base/system_file.h"
#include "models/hf_config.h"
#include "models/presets.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As huggingface_hub.constants has it.
fs::path hf_cache() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = variable("XDG_CACHE_HOME");
  const fs::path base = cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache);
  return base / "huggingface" / "hub";
}

// org/name, and not a path of another kind.
bool is_hub_name(std::string_view text) {
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && std::ranges::all_of(part, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
  };
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && is_part(text.substr(0, slash)) &&
         is_part(text.substr(slash + 1));
}

// The snapshot that the cache has of the main branch.
std::optional<std::string> cached_folder(std::string name) {
  const std::string asked_for = name;
  name.replace(name.find('/'), 1, "--");
  const fs::path folder = hf_cache() / ("models--" + name);
  std::optional<std::string> commit = read_system_file(folder / "refs" / "main");
  if (!commit) return std::nullopt;
  std::erase_if(*commit, [](unsigned char c) { return std::isspace(c) != 0; });
  if (commit->find('/') != std::string::npos) {
    throw_error<ConfigError>("--model {}: {} names no commit", asked_for,
                             (folder / "refs" / "main").string());
  }
  const fs::path snapshot = folder / "snapshots" / *commit;
  if (!fs::exists(snapshot / kModelConfigFile)) return std::nullopt;
  return snapshot.string();
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Where the model's files are; throws if they are nowhere.
std::string folder_of(const std::string& model) {
  if (is_folder(model)) return model;
  if (is_hub_name(model)) {
    if (const auto cached = cached_folder(model)) return *cached;
    throw_error<ConfigError>(
        "--model {}: there is no such folder, and the Hugging Face cache ({}) does not have it; "
        "download it: hf download {}",
        model, hf_cache().string(), model);
  }
  if (model.find('/') != std::string::npos) {
    throw_error<ConfigError>("--model {}: there is no such folder", model);
  }
  (void)models::parse_model(model);  // says which names there are
  throw_error<ConfigError>("--model {}: unknown model", model);
}

models::HfModel read_config(const std::string& model, const std::string& folder) {
  const std::string path = (fs::path(folder) / kModelConfigFile).string();
  const std::optional<std::string> text = read_system_file(path);
  if (!text) {
    throw_error<ConfigError>("--model {}: {} cannot be read; name a Hugging Face model folder",
                             model, path);
  }
  try {
    return models::parse_hf_config(*text);
  } catch (const ConfigError& error) {
    throw_error<ConfigError>("--model {}: {}: {}", model, path, error.what());
  } catch (const FormatError& error) {
    throw_error<ConfigError>("--model {}: {}: {}", model, path, error.what());
  }
}

}  // namespace

ModelSource resolve_model(const std::string& model, const std::string& kept) {
  ModelSource source;
  if (models::is_model_name(model)) {
    source.config = models::parse_model(model);
    return source;
  }
  if (kept.empty() || is_folder(model)) {
    source.folder = folder_of(model);
  } else {
    source.folder = is_hub_name(model) ? cached_folder(model).value_or(model) : model;
  }
  source.files_folder = kept.empty() ? source.folder : kept;
  const models::HfModel described = read_config(model, source.files_folder);
  source.config = described.config;
  source.config.name = model;
  source.has_dropout = described.has_dropout;
  return source;
}

std::string hub_name_of(const std::string& folder) {
  const fs::path snapshots = fs::path(folder).parent_path();
  std::string name = snapshots.parent_path().filename();
  constexpr std::string_view kModels = "models--";
  if (snapshots.filename() != "snapshots" || !name.starts_with(kModels)) return "";
  name.erase(0, kModels.size());
  const std::size_t separator = name.find("--");
  if (separator == std::string::npos) return "";
  return name.substr(0, separator) + "/" + name.substr(separator + 2);
}

std::string kept_model_folder(const std::string& run) {
  const fs::path folder = fs::path(run) / kKeptModelFolder;
  return !run.empty() && fs::exists(folder / kModelConfigFile) ? folder.string() : "";
}

ModelFiles read_model_files(const std::string& folder) {
  ModelFiles files;
  if (folder.empty()) return files;
  const auto add = [&](const char* name) {
    if (auto text = read_system_file((fs::path(folder) / name).string())) files[name] = *text;
  };
  add(kModelConfigFile);
  for (const char* const name : kTokenizerFiles) add(name);
  return files;
}

ModelFiles exported_model_files(const models::ModelConfig& config, Dtype weights,
                                const std::string& kept) {
  ModelFiles files = read_model_files(kept);
  std::string& text = files[kModelConfigFile];
  text = text.empty() ? models::hf_config_text(config, weights)
                      : models::merged_hf_config(config, weights, text);
  return files;
}

}  // namespace strata::engine
