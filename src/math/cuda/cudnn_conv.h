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

// One pass of a convolution: y = w over x, dx from dy and w, or dw from x and dy. Tensors are
// dense, row-major or channels last, all of one type; sums are f32.
struct CudnnConvSpec {
  struct Axis {
    int64_t in, out, kernel, stride, pad, dilation;
  };

  ConvPass pass = ConvPass::kForward;
  DType dtype = DType::kF32;   // f32, bf16 or f16
  bool tf32 = false;           // products of f32 may be rounded to 10 bits behind the point
  bool channels_last = false;  // filters too
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  std::vector<Axis> axes;  // of space, 2 or 3
  int64_t alignment = 16;  // of all memory, bytes
  // What is done to the result of kForward and kToInput, in this order: a tensor like it is added,
  // a number a channel is added, ReLU with that slope below 0.
  bool sum = false;
  bool bias = false;
  std::optional<float> relu;

  // In training, of a BatchNorm with ReLU in front or behind; only the first goes with the above.
  // `normalized`: kForward and kToWeights read relu(scale * x + shift), by channel, in place of x.
  bool normalized = false;
  // kForward gives the sums of the channels of y, and of their squares, too.
  bool statistics = false;
  // kToInput: dx is that of a normalisation's output, relu((norm_x - mean) * inverse * scale +
  // shift) by channel: dx is 0 where that is not above 0, and the sums for the gradients of its
  // scale and shift are given too.
  bool norm_gradient = false;

  bool fused() const { return sum || bias || relu.has_value(); }
  int64_t InCount() const;      // elements of x
  int64_t OutCount() const;     // of y
  int64_t FilterCount() const;  // of w
};

// On one line: the same for what must take the same time on one GPU.
std::string Describe(const CudnnConvSpec& spec);

// What engines may expect of the address of their workspace, as of memory of its own.
inline constexpr int64_t kCudnnWorkspaceLine = 256;

// The workspace that engines may take, bytes: in proportion to the tensors, 256 MiB at most.
int64_t CudnnWorkspaceBound(const CudnnConvSpec& spec);

// Memory of one pass. Of kForward: x, w -> y; of kToInput: y, w -> x; of kToWeights: x, y -> w.
struct CudnnConvMemory {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  const void* sum = nullptr;
  const void* bias = nullptr;
  // CudnnConvSpec::normalized: numbers of the channels of x, of the type of x.
  const void* scale = nullptr;
  const void* shift = nullptr;
  // CudnnConvSpec::statistics: f32, one a channel of y.
  float* sum_of_y = nullptr;
  float* sum_of_squares = nullptr;
  // CudnnConvSpec::norm_gradient.
  struct Norm {
    const void* x = nullptr;  // its input, as the result lies
    // By channel.
    const float *mean = nullptr, *inverse = nullptr, *scale = nullptr, *shift = nullptr;
    // Given, by channel: the gradients of scale and shift, and what cuDNN gives besides, which
    // nobody reads: 3 * channels.
    float *dscale = nullptr, *dshift = nullptr, *equivalents = nullptr;
  } norm = {};
  void* workspace = nullptr;  // aligned to kCudnnWorkspaceLine

  // The largest of 16, 8, 4, 2 that all addresses but the workspace are multiples of.
  int64_t Alignment() const;
};

// What engines take, by name, as somebody measured it: seconds that `measure(i)` gives for
// names[i]; empty: nobody measures, and the first is as good as any. `work` says what they do.
using CudnnTimer =
    std::function<std::vector<double>(const std::string& work, std::span<const std::string> names,
                                      const std::function<double(size_t)>& measure)>;

// A pass made ready for one session. Thread safety: one thread at a time.
class CudnnConvPass {
 public:
  // Throws kUnsupported where cuDNN has no engine within CudnnWorkspaceBound. With a timer the
  // fastest of the engines, run on `memory`, whose results are overwritten.
  CudnnConvPass(const CudaQueue& queue, CudnnConvSpec spec, const CudnnConvMemory& memory,
                const CudnnTimer& timer);

  const std::string& engine() const { return plan_->name(); }
  const CudnnConvSpec& spec() const { return spec_; }
  // Queues it.
  void Run(const CudaQueue& queue, const CudnnConvMemory& memory);

 private:
  CudnnConvSpec spec_;
  std::unique_ptr<CudnnPlan> plan_;
};

// What cuDNN says of passes, asked once a GPU for each of them; that becomes the GPU of the thread.
// Thread safety: any number of threads.
class CudnnSupportCache {
 public:
  CudnnSupportCache() = default;
  ~CudnnSupportCache();
  CudnnSupportCache(const CudnnSupportCache&) = delete;
  CudnnSupportCache& operator=(const CudnnSupportCache&) = delete;

  // Why it cannot be done; empty: it can. Requires that cuDNN can be used (WhyNoCudnn).
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
