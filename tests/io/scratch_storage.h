// A Storage on a scratch file of the tests' directory, through an engine of a kind.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "io/drive_space.h"
#include "io/engine_choice.h"
#include "io/engine_storage.h"
#include "io/scratch_file.h"

namespace strata::io {

struct OwnedScratchFile {
  DirectFile file;
};

// The file is closed after the engine has ended.
class ScratchStorage final : OwnedScratchFile, public EngineStorage {
 public:
  ScratchStorage(DirectFile owned, EngineStorageOptions options, std::unique_ptr<Engine> engine)
      : OwnedScratchFile{std::move(owned)},
        EngineStorage(std::move(options), std::move(engine), nullptr) {}
};

inline std::unique_ptr<Storage> make_scratch_storage(EngineKind kind, std::int64_t capacity_bytes,
                                                     std::int64_t request_bytes_max = 64 * 1024) {
  DirectFile file = open_scratch_file(testing::TempDir());
  preallocate(file, capacity_bytes);
  EngineStorageOptions options;
  options.path = file.path();
  options.capacity_bytes = capacity_bytes;
  options.alignment_bytes = file.alignment_bytes();
  options.request_bytes_max = request_bytes_max;
  options.queue_depth = 8;
  auto engine = make_engine(file.descriptor(), file.path(),
                            {.kind = kind, .queue_depth = options.queue_depth});
  return std::make_unique<ScratchStorage>(std::move(file), std::move(options), std::move(engine));
}

}  // namespace strata::io
