#include <memory>
#include <utility>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_cudnn_state.h"
#include "layers/gpu_row.h"

namespace crema {
namespace {

template <typename T>
void AddTo(const CudaQueue& queue, int64_t count, const T* x, T* sum) {
  ForElements(queue, "AddWeightGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    sum[i] = FromFloat<T>(ToFloat(sum[i]) + ToFloat(x[i]));
  });
}

// Of the layer's input, weights and output, or of their gradients.
CudnnConvMemory MemoryOf(bool transposed, const void* input, const void* weight, const void* output,
                         void* workspace) {
  if (transposed) std::swap(input, output);
  return {.x = input, .w = weight, .y = output, .workspace = workspace};
}

void* TakeWorkspace(const CudnnConvSpec& spec, ScratchCutter* cutter) {
  const int64_t bytes = CudnnWorkspaceBound(spec);
  void* memory = cutter->Take<std::byte>(bytes + kCudnnWorkspaceLine);
  size_t room = static_cast<size_t>(bytes + kCudnnWorkspaceLine);
  return std::align(kCudnnWorkspaceLine, static_cast<size_t>(bytes), memory, room);
}

}  // namespace

CudnnConvState::CudnnConvState(const CudnnConvLayer& layer, bool fused)
    : layer_(layer),
      fused_(fused),
      fold_(layer.own_bias, layer.absorbed),
      forward_{layer.Forward(fused)},
      to_input_{layer.ToInput()},
      to_weights_{layer.ToWeights()} {}

void CudnnConvState::Run(const CudaQueue& queue, const CudnnConvMemory& memory, Pass* pass) {
  const int64_t alignment = memory.Alignment();
  for (const auto& made : pass->made) {
    if (made->spec().alignment == alignment) return made->Run(queue, memory);
  }
  CudnnConvSpec spec = pass->spec;
  spec.alignment = alignment;
  CudnnTimer timer;
  if (timer_ != nullptr) {
    timer = [&](const std::string& work, std::span<const std::string> names,
                const std::function<double(size_t)>& measure) {
      return timer_->MeasureEngines(work, names, measure);
    };
  }
  pass->made.push_back(std::make_unique<CudnnConvPass>(queue, std::move(spec), memory, timer));
  pass->made.back()->Run(queue, memory);
}

void CudnnConvState::Forward(const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  ScratchCutter cutter(args.scratch);
  void* workspace = TakeWorkspace(spec, &cutter);
  if (fold_.any()) fold_.Make(args);
  const void* weight = fold_.any() ? fold_.weight() : args.learned[0].raw();
  const void* own_bias = layer_.own_bias ? args.learned[1].raw() : nullptr;
  const void* bias = fold_.any() ? fold_.bias() : own_bias;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    void* output = args.outputs[i].raw();
    CudnnConvMemory memory =
        MemoryOf(layer_.transposed, args.inputs[i].raw(), weight, output, workspace);
    if (forward_.spec.bias) memory.bias = bias;
    if (forward_.spec.sum) memory.sum = args.inputs.back().raw();
    Run(queue, memory, &forward_);
    if (fused_) continue;
    const int64_t channels = layer_.OutputChannels();
    const int64_t size = layer_.OutputCount() / (spec.batch * channels);
    CudaAddBiasRelu(queue, spec.dtype, {spec.batch, channels, size}, bias, layer_.relu, output);
  }
}

void CudnnConvState::AddLearnedGradients(const BackwardArgs& args, size_t i, const void* dy,
                                         void* dweight, void* workspace) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  const TensorView& dbias = At(args.learned_grads, 1);
  if (!dbias.empty()) {
    const int64_t channels = layer_.OutputChannels();
    const int64_t size = layer_.OutputCount() / (spec.batch * channels);
    CudaAddBiasGradient(queue, spec.dtype, {spec.batch, channels, size}, dy, dbias.raw());
  }
  if (args.learned_grads[0].empty()) return;
  // Few engines of cuDNN add to what is there.
  Run(queue, MemoryOf(layer_.transposed, args.inputs[i].raw(), dweight, dy, workspace),
      &to_weights_);
  DispatchCudaFloat(spec.dtype, [&]<typename T>(T) {
    AddTo(queue, spec.FilterCount(), static_cast<const T*>(dweight),
          Elements<T>(args.learned_grads[0]));
  });
}

void CudnnConvState::Backward(const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  const auto bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  ScratchCutter cutter(args.scratch);
  void* workspace = TakeWorkspace(spec, &cutter);
  void* dweight = cutter.Take<std::byte>(spec.FilterCount() * bytes);
  void* masked = layer_.relu.on ? cutter.Take<std::byte>(layer_.OutputCount() * bytes) : nullptr;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const void* dy = args.output_grads[i].raw();
    if (layer_.relu.on) {
      CudaMaskByOutput(queue, spec.dtype, layer_.OutputCount(), layer_.relu.slope,
                       args.outputs[i].raw(), dy, masked);
      dy = masked;
    }
    AddLearnedGradients(args, i, dy, dweight, workspace);
    if (args.input_grads[i].empty()) continue;
    Run(queue,
        MemoryOf(layer_.transposed, args.input_grads[i].raw(), args.learned[0].raw(), dy,
                 workspace),
        &to_input_);
  }
}

}  // namespace crema
