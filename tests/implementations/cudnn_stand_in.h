// Functions that replace cuDNN's: they store descriptors, refuse what its documentation refuses,
// and compute on the CPU, in f64, as it says. Graphs and batch norm are missing.
#pragma once

#if __has_include(<cudnn.h>)
#include "math/cuda/cudnn.h"

namespace crema::test {

const CudnnLibrary& CudnnOfTests();

// Handles and descriptors that were made and not destroyed.
int LivingCudnnObjects();

// The next call of an operation fails with CUDNN_STATUS_EXECUTION_FAILED.
void FailNextCudnnOperation();

}  // namespace crema::test
#endif
