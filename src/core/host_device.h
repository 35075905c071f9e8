// Marks functions that run on the CPU and, where nvcc compiles them, on GPUs too.
#pragma once

#ifdef __CUDACC__
#define CREMA_HOST_DEVICE __host__ __device__
#else
#define CREMA_HOST_DEVICE
#endif
