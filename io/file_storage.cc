#include "io/file_storage.h"

#include <utility>
#include <vector>

#include "io/drive_space.h"
#include "io/engine_storage.h"
#include "io/scratch_file.h"
#include "io/uring_engine.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::io {
namespace {

struct OwnedFile {
  DirectFile file;
};

// The file is closed after the engine has ended.
class FileStorage final : OwnedFile, public EngineStorage {
 public:
  FileStorage(DirectFile owned, EngineStorageOptions options, std::unique_ptr<Engine> engine,
              Tracer* tracer)
      : OwnedFile{std::move(owned)}, EngineStorage(std::move(options), std::move(engine), tracer) {}
};

}  // namespace

std::unique_ptr<Storage> open_file_storage(const FileStorageOptions& options, Tracer* tracer) {
  STRATA_CHECK(options.capacity_bytes > 0 && options.queue_depth > 0);
  DirectFile file = open_scratch_file(options.directory);
  EngineStorageOptions engine_options{
      .path = file.path(),
      .capacity_bytes = round_up(options.capacity_bytes, file.alignment_bytes()),
      .alignment_bytes = file.alignment_bytes(),
      .request_bytes_max = options.request_bytes_max,
      .queue_depth = options.queue_depth,
      .timeout = options.timeout};
  file.preallocate(engine_options.capacity_bytes);
  auto engine = std::make_unique<UringEngine>(file.descriptor(), file.path(), options.queue_depth,
                                              options.timeout);
  return std::make_unique<FileStorage>(std::move(file), std::move(engine_options),
                                       std::move(engine), tracer);
}

std::int64_t check_storage_directory(const std::string& directory, std::int64_t needed_bytes) {
  const std::vector<DriveSpace> drives = look_at_drives({&directory, 1});
  check_total_free(drives, needed_bytes);
  return drives[0].free_bytes;
}

}  // namespace strata::io
