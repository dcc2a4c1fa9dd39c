#include "io/uring_probe.h"

#include <liburing.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "io/transfer.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/system_file.h"

namespace strata::io {
namespace {

constexpr std::string_view kSysctlAdvice = "set the sysctl kernel.io_uring_disabled to 0";
constexpr std::string_view kSeccompAdvice = "use a seccomp profile that permits io_uring";
constexpr std::string_view kKernelAdvice = "use Linux 5.11 or later";

struct Cause {
  std::string text;
  std::string_view advice;
};

bool is_filtered() {
  const auto status = read_system_file("/proc/self/status");
  return status && number_of_key(*status, "Seccomp:").value_or(0) == 2;
}

// 0: allowed; 1: to members of a group only; 2: to nobody (Linux 6.6 and later).
int disabled_level() {
  const auto text = read_system_file("/proc/sys/kernel/io_uring_disabled");
  return text ? std::atoi(text->c_str()) : 0;
}

Cause cause_of(int error_number) {
  if (error_number == EPERM || error_number == EACCES) {
    const int level = disabled_level();
    if (level > 0 && geteuid() != 0) {
      return {fmt::format("the sysctl kernel.io_uring_disabled is {}", level), kSysctlAdvice};
    }
    if (level == 2) return {"the sysctl kernel.io_uring_disabled is 2", kSysctlAdvice};
    return {is_filtered() ? "a seccomp filter, as container runtimes have"
                          : "a security module of this system",
            kSeccompAdvice};
  }
  if (error_number == ENOSYS && is_filtered()) {
    return {"a seccomp filter, as container runtimes have, or a kernel without it", kSeccompAdvice};
  }
  if (error_number == ENOSYS) return {"this kernel has no io_uring", kKernelAdvice};
  if (error_number == ENOMEM) {
    return {"not enough memory, or RLIMIT_MEMLOCK is too small", "raise ulimit -l"};
  }
  return {"for a reason of the system's", "look into its log"};
}

class ProbeRing {
 public:
  ProbeRing() : error_number_(-io_uring_queue_init(2, &ring_, 0)) {}
  ~ProbeRing() {
    if (error_number_ == 0) io_uring_queue_exit(&ring_);
  }
  ProbeRing(const ProbeRing&) = delete;
  ProbeRing& operator=(const ProbeRing&) = delete;

  int error_number() const { return error_number_; }
  bool has_timed_waits() const { return (ring_.features & IORING_FEAT_EXT_ARG) != 0; }

  bool registers_files() {
    const int descriptor = STDERR_FILENO;
    return io_uring_register_files(&ring_, &descriptor, 1) == 0;
  }
  bool registers_buffers() {
    alignas(kPageBytes) static std::byte page[kPageBytes];
    const iovec memory{page, sizeof(page)};
    if (io_uring_register_buffers_sparse(&ring_, 1) != 0) return false;
    return io_uring_register_buffers_update_tag(&ring_, 0, &memory, nullptr, 1) == 1;
  }
  void unregister() { io_uring_unregister_buffers(&ring_); }

 private:
  io_uring ring_{};
  int error_number_;
};

bool has_ipc_lock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

UringSupport probe_uring() {
  UringSupport support;
  ProbeRing ring;
  if (ring.error_number() != 0) {
    const Cause cause = cause_of(ring.error_number());
    support.obstacle =
        fmt::format("io_uring_setup: {}: {}", errno_text(ring.error_number()), cause.text);
    support.advice = cause.advice;
    return support;
  }
  // Without it liburing times a wait by a submission of its own, which is not thread-safe.
  if (!ring.has_timed_waits()) {
    support.obstacle = "io_uring of this kernel has no timed waits (IORING_FEAT_EXT_ARG)";
    support.advice = kKernelAdvice;
    return support;
  }
  support.registers_files = ring.registers_files();
  support.registers_buffers = ring.registers_buffers();
  if (support.registers_buffers) ring.unregister();
  support.locked_bytes_max = locked_bytes_max();
  return support;
}

std::int64_t locked_bytes_max() {
  rlimit limit{};
  if (has_ipc_lock() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return static_cast<std::int64_t>(limit.rlim_cur);
}

}  // namespace strata::io
