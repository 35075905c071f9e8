// From a convolution to its graph; see cudnn_conv.h.
#pragma once

#if __has_include(<cudnn.h>)
#include <memory>
#include <string>
#include <vector>

#include "math/cuda/cudnn_conv.h"

namespace crema {

// Names of memory in the graphs.
enum CudnnConvTensor : int64_t {
  kCudnnX = 1,
  kCudnnW,
  kCudnnY,
  kCudnnSum,
  kCudnnBias,
  kCudnnScale,  // of what is normalized
  kCudnnShift,
  kCudnnSumOfY,
  kCudnnSumOfSquares,
  kCudnnNormX,
  kCudnnMean,
  kCudnnInverse,
  kCudnnNormScale,
  kCudnnNormShift,
  kCudnnDscale,
  kCudnnDshift,
  kCudnnEquivalents,  // three
  kCudnnLastEquivalent = kCudnnEquivalents + 2,
  kCudnnVirtual  // and behind it
};

// The tensors of a graph that have memory, in the order of `CudnnConvData`.
std::vector<int64_t> CudnnConvIds(const CudnnConvSpec& spec);
std::vector<void*> CudnnConvData(const CudnnConvSpec& spec, const CudnnConvMemory& memory);

// Throws kUnsupported where cuDNN knows no such graph.
std::shared_ptr<const CudnnGraph> MakeCudnnConvGraph(cudnnHandle_t handle,
                                                     const CudnnConvSpec& spec);

// Those that may be used: the same bits in each run, sums in f32, and products too unless `tf32`.
// The best first; at most some. `words` is set, and kUnsupported thrown, as by CudnnEngines.
std::vector<CudnnEngine> CudnnConvEngines(const CudnnGraph& graph, const CudnnConvSpec& spec,
                                          bool fallback, std::string* words = nullptr);

}  // namespace crema
#endif
