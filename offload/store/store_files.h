// The store's files, one per rank and directory: their names, the metadata at their beginning, and
// how a new store writes it. docs/store-format.md has the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/volume.h"
#include "offload/store/file_header.h"
#include "offload/store/manifest.h"

namespace strata::store {

// Whose store it is. The run folder is empty for a run without one.
struct StoreIdentity {
  std::string run_id;  // 32 hex digits, the same on all ranks
  int rank = 0;
  int world_size = 1;
  std::string run_folder;
};

std::string new_run_id();

// "strata-RUNID-rankR.store": VolumeOptions::file_name.
std::string store_file_name(const StoreIdentity& identity);
bool is_store_file_name(std::string_view name);

// VolumeOptions::metadata_bytes of a store with this manifest.
std::int64_t store_metadata_bytes(const Manifest& manifest);

// Writes header and manifest to every file of a volume that was made with the two above. Before
// anything else is written. Returns the header of directory 0. Throws IoError, or ConfigError for
// too many directories.
FileHeader write_header(io::Volume& volume, const StoreIdentity& identity,
                        const Manifest& manifest);

// The header of directory 0 of a volume that has one. Throws IoError, FormatError.
FileHeader read_header(io::Volume& volume);

}  // namespace strata::store
