// StorePointer: store.json in the folder of a run: which store holds the run's state, and where its
// files are. It is what decides: a store without a pointer is nobody's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::engine {

struct StoreOfRank {
  std::string host;
  std::vector<std::string> directories;  // absolute, in the order of the store's
};

struct StorePointer {
  std::string run_id;  // of the store
  std::vector<StoreOfRank> ranks;

  int world_size() const { return static_cast<int>(ranks.size()); }
};

inline constexpr const char* kStorePointerFile = "store.json";

// The file's text, and back: ranks tell each other, because not every one may see the folder.
// parse: throws FormatError naming `path` and what is wrong with it.
std::string text_of(const StorePointer& pointer);
StorePointer parse_store_pointer(std::string_view text, const std::string& path);

// Nothing where there is no such file. Throws FormatError naming the file and what is wrong with
// it.
std::optional<StorePointer> read_store_pointer(const std::string& run_folder);

// Durably, by a rename: afterwards the old one is there, or the new one. Throws IoError.
void replace_store_pointer(const std::string& run_folder, const StorePointer& pointer);

// Durably; before a store without a commit is deleted. Throws IoError.
void remove_store_pointer(const std::string& run_folder);

}  // namespace strata::engine
