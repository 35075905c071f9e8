// The functions of NCCL that Crema calls, for nccl.cu and its tests.
#pragma once

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace crema {

struct NcclLibrary {
  decltype(&ncclCommInitAll) init_all;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
};

}  // namespace crema
#endif
