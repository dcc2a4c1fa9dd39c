// A CUDA backend of another build.
#include "kernels/device/cuda_backend.h"

STRATA_CUDA_ENTRY_POINT strata::cuda_entry::Stamp strata_cuda_stamp;

const char* strata_cuda_stamp() { return "0.0.0-other"; }
