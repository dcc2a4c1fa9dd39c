// Scratch files: files without a name, gone when the last descriptor is, however the process ends.
#pragma once

#include <string>

#include "io/direct_file.h"

namespace strata::io {

// A file for direct I/O that never shows up in its directory unless it is given a name (linkat). A
// closed descriptor where the file system has none (no O_TMPFILE: NFS, overlayfs before 6.1).
// Throws ConfigError when `directory` cannot hold such a file.
FileDescriptor open_nameless(const std::string& directory);

// Has no blocks yet. It never shows up in its directory where the file system has O_TMPFILE, and is
// unlinked at once where it has not. Throws ConfigError when `directory` cannot hold such a file.
DirectFile open_scratch_file(const std::string& directory);

}  // namespace strata::io
