// StorePointer: store.json in the folder of a run: which store holds the run's state, and where its
// files were made. It is what decides: a store without a pointer is nobody's.
#pragma once

#include <optional>
#include <string>
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

// Nothing where there is no such file. Throws FormatError naming the file and what is wrong with
// it.
std::optional<StorePointer> read_store_pointer(const std::string& run_folder);

// Durably, by a rename: afterwards the old one is there, or the new one. Throws IoError.
void replace_store_pointer(const std::string& run_folder, const StorePointer& pointer);

}  // namespace strata::engine
