// Marks functions that run on the CPU and, when compiled by nvcc, also on GPUs.
#pragma once

#ifdef __CUDACC__
#define CREMA_HOST_DEVICE __host__ __device__
#else
#define CREMA_HOST_DEVICE
#endif
