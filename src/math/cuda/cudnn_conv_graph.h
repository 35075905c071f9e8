// Converts a convolution to a cuDNN graph; see cudnn_conv.h.
#pragma once

#if __has_include(<cudnn.h>)
#include <memory>
#include <string>
#include <vector>

#include "math/cuda/cudnn_conv.h"

namespace crema {

// The ids of the tensors in the graphs.
enum CudnnConvTensor : int64_t {
  kCudnnX = 1,
  kCudnnW,
  kCudnnY,
  kCudnnSum,
  kCudnnBias,
  kCudnnVirtual  // and the ids after it
};

// The tensors of a graph that have memory, in the order of `CudnnConvData`.
std::vector<int64_t> CudnnConvIds(const CudnnConvSpec& spec);
std::vector<void*> CudnnConvData(const CudnnConvSpec& spec, const CudnnConvMemory& memory);

// Throws kUnsupported if cuDNN does not support the graph.
std::shared_ptr<const CudnnGraph> MakeCudnnConvGraph(cudnnHandle_t handle,
                                                     const CudnnConvSpec& spec);

// Returns the engines that may be used: the same bits in each run, sums in f32, and products too
// unless `tf32`. Best first; at most some. Sets `words` and throws kUnsupported as CudnnEngines
// does.
std::vector<CudnnEngine> CudnnConvEngines(const CudnnGraph& graph, const CudnnConvSpec& spec,
                                          bool fallback, std::string* words = nullptr);

}  // namespace crema
#endif
