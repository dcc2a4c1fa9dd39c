// NCCL's functions. The library is loaded when the first communicator is made: it is large, and
// one rank does without.
#pragma once

#include <nccl.h>

#define STRATA_NCCL_FUNCTIONS(use)                                                               \
  use(ncclGetVersion) use(ncclGetUniqueId) use(ncclCommInitRankConfig) use(ncclCommFinalize)     \
      use(ncclCommDestroy) use(ncclCommAbort) use(ncclCommGetAsyncError) use(ncclGetErrorString) \
          use(ncclGetLastError) use(ncclGroupStart) use(ncclGroupEnd) use(ncclAllGather)         \
              use(ncclSend) use(ncclRecv)

namespace strata::comm {

struct Nccl {
#define STRATA_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  STRATA_NCCL_FUNCTIONS(STRATA_NCCL_MEMBER)
#undef STRATA_NCCL_MEMBER
};

// Throws ConfigError where it is not installed.
Nccl load_nccl();

}  // namespace strata::comm
