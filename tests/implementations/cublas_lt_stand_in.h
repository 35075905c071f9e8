// Functions that replace cuBLASLt's: they store descriptors and compute on the CPU what its
// documentation says of products, epilogues, TF32 and workspaces.
#pragma once

#if __has_include(<cublasLt.h>)
#include "math/cuda/cublas_lt.h"

namespace crema::test {

const CublasLtLibrary& CublasLtOfTests();

// Handles and descriptors that were made and not destroyed.
int LivingCublasLtObjects();

// Sets whether later queries find an algorithm.
void LetCublasLtFindAlgorithms(bool found);

}  // namespace crema::test
#endif
