// Convolutions as graphs of cuDNN, and the choice of an engine for each.
#pragma once

#if __has_include(<cudnn.h>)
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/cudnn_graph.h"

namespace crema {

enum class ConvPass { kForward, kToInput, kToWeights };

// One pass of a convolution: y from x and w, dx from dy and w, or dw from x and dy. Tensors are
// dense, row-major or channels last, all of one type; sums are f32.
struct CudnnConvSpec {
  struct Axis {
    int64_t in, out, kernel, stride, pad, dilation;
  };

  ConvPass pass = ConvPass::kForward;
  DType dtype = DType::kF32;   // f32, bf16 or f16
  bool tf32 = false;           // products of f32 may be rounded to 10 bits of mantissa
  bool channels_last = false;  // filters too
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  std::vector<Axis> axes;  // spatial, 2 or 3
  int64_t alignment = 16;  // of all memory, bytes
  // The epilogue of kForward and kToInput, in this order: adds a tensor like the result, adds a
  // bias for each channel, applies ReLU with this negative slope.
  bool sum = false;
  bool bias = false;
  std::optional<float> relu;

  bool fused() const { return sum || bias || relu.has_value(); }
  int64_t InCount() const;      // elements of x
  int64_t OutCount() const;     // of y
  int64_t FilterCount() const;  // of w
};

// Describes it on one line; equal lines mean equal running times on one GPU.
std::string Describe(const CudnnConvSpec& spec);

// The alignment that engines may assume of their workspace, as of an allocation of its own.
inline constexpr int64_t kCudnnWorkspaceLine = 256;

// Returns the most bytes of workspace for an engine: proportional to the tensors, at most 256 MiB.
int64_t CudnnWorkspaceBound(const CudnnConvSpec& spec);

// Memory of one pass. kForward: x, w -> y; kToInput: y, w -> x; kToWeights: x, y -> w.
struct CudnnConvMemory {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  const void* sum = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;  // aligned to kCudnnWorkspaceLine

  // Returns the largest of 16, 8, 4, 2 that divides all addresses except the workspace.
  int64_t Alignment() const;
};

// Returns the times of engines by name: the seconds that `measure(i)` returns for names[i]; empty:
// nothing is measured, and the first engine is used. `work` describes the computation.
using CudnnTimer =
    std::function<std::vector<double>(const std::string& work, std::span<const std::string> names,
                                      const std::function<double(size_t)>& measure)>;

// A pass prepared for one session. Thread safety: one thread at a time.
class CudnnConvPass {
 public:
  // Throws kUnsupported if cuDNN has no engine within CudnnWorkspaceBound. With a timer it chooses
  // the fastest engine by running them on `memory`, which overwrites the results.
  CudnnConvPass(const CudaQueue& queue, CudnnConvSpec spec, const CudnnConvMemory& memory,
                const CudnnTimer& timer);

  const std::string& engine() const { return plan_->name(); }
  const CudnnConvSpec& spec() const { return spec_; }
  // Queues the pass.
  void Run(const CudaQueue& queue, const CudnnConvMemory& memory);

 private:
  CudnnConvSpec spec_;
  std::unique_ptr<CudnnPlan> plan_;
};

// Caches which passes cuDNN supports, queried once per GPU; a query sets the current CUDA device.
// Thread safety: any number of threads.
class CudnnSupportCache {
 public:
  CudnnSupportCache() = default;
  ~CudnnSupportCache();
  CudnnSupportCache(const CudnnSupportCache&) = delete;
  CudnnSupportCache& operator=(const CudnnSupportCache&) = delete;

  // Returns why the pass is not supported, or empty. Requires that cuDNN can be used (WhyNoCudnn).
  std::string WhyNot(const CudnnConvSpec& spec, int gpu);

 private:
  cudnnHandle_t HandleOf(int gpu);

  std::mutex mutex_;
  const CudnnLibrary* library_ = nullptr;
  bool of_stand_in_ = false;
  std::map<int, cudnnHandle_t> handles_;
  std::map<std::pair<int, std::string>, std::string> reasons_;
};

}  // namespace crema
#endif
