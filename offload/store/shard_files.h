// ShardFiles: the files of one rank's store, in any directories, put in order and understood by the
// header and the manifest at their beginning; and what lies in them as people may look at it beside
// a living run, without a lock.
//
// Errors name the file.
#pragma once

#include <string>
#include <vector>

#include "offload/store/commit_log.h"
#include "offload/store/file_header.h"
#include "offload/store/manifest.h"

namespace strata::store {

// The files of rank `rank` of store `run_id` in `directories`, which may have others too and come
// twice; empty unless all are there, as many as the first one says. Once they are, directories that
// come later are not looked in: they may have copies. What is wrong with a file that cannot be read
// is read_shard_files()'s to say.
std::vector<std::string> find_shard_files(const std::vector<std::string>& directories,
                                          const std::string& run_id, int rank);

struct ShardFiles {
  FileHeader header;               // of directory 0
  std::vector<std::string> paths;  // by directory
  Manifest manifest;
};

// `files`: in any order. Throws ConfigError when one is missing; FormatError (VersionError) for
// damage, files of different stores, another version of the format; IoError.
ShardFiles read_shard_files(const std::vector<std::string>& files);

// Takes no lock: what a run is writing at the moment may come as a problem. Throws IoError.
FoundCommits look_at_commits(const ShardFiles& files);

}  // namespace strata::store
