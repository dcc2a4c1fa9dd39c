#include "offload/comm/cuda/nccl_library.h"

#include <dlfcn.h>

#include "kernels/base/error.h"

namespace strata::comm {

#ifdef STRATA_CUDA_SIM
Nccl load_nccl() {
  Nccl nccl;
#define STRATA_NCCL_FIND(name) nccl.name = &::name;
  STRATA_NCCL_FUNCTIONS(STRATA_NCCL_FIND)
  return nccl;
}
#else
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr int kVersionMin = NCCL_VERSION(2, 22, 3);  // aborts communicators as a group

void* find(void* library, const char* name) {
  void* const function = ::dlsym(library, name);
  if (function == nullptr) {
    throw_error<ConfigError>("{} has no {}: install NCCL {}.{} or newer", kFile, name, NCCL_MAJOR,
                             NCCL_MINOR);
  }
  return function;
}

}  // namespace

Nccl load_nccl() {
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw_error<ConfigError>(
        "several ranks on GPUs need NCCL, which cannot be loaded ({}): install it, or start one "
        "rank",
        ::dlerror());
  }
  Nccl nccl;
#define STRATA_NCCL_FIND(name) \
  nccl.name = reinterpret_cast<decltype(&::name)>(find(library, #name));
  STRATA_NCCL_FUNCTIONS(STRATA_NCCL_FIND)
  int version = 0;
  if (nccl.ncclGetVersion(&version) != ncclSuccess || version < kVersionMin) {
    throw_error<ConfigError>("several ranks on GPUs need NCCL 2.22.3 or newer, {} is {}.{}.{}",
                             kFile, version / 10000, version / 100 % 100, version % 100);
  }
  return nccl;
}
#endif

}  // namespace strata::comm
