// A library for LD_PRELOAD: ends the process, without any clean-up, before call number
// STRATA_CRASH_AT (from 0) of those that change names, sizes or durability of files.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kCrashed = 86;  // exit status

void count_call() {
  static const char* const crash_at = std::getenv("STRATA_CRASH_AT");
  static std::atomic<long> calls{0};
  if (crash_at != nullptr && calls.fetch_add(1) == std::atol(crash_at)) ::_exit(kCrashed);
}

template <typename... Arguments>
int counted(const char* name, Arguments... arguments) {
  count_call();
  return reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept { return counted("rename", from, to); }
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return counted("linkat", from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) noexcept { return counted("unlink", path); }
int remove(const char* path) noexcept { return counted("remove", path); }
int ftruncate(int file, off_t bytes) noexcept { return counted("ftruncate", file, bytes); }
int fallocate(int file, int mode, off_t offset, off_t bytes) {
  return counted("fallocate", file, mode, offset, bytes);
}
int fsync(int file) { return counted("fsync", file); }
int fdatasync(int file) { return counted("fdatasync", file); }

}  // extern "C"
