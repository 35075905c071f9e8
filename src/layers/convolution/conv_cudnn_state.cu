#include <algorithm>
#include <memory>
#include <utility>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_cudnn_state.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"

namespace crema {
namespace {

template <typename T>
void AddTo(const CudaQueue& queue, int64_t count, const T* x, T* sum) {
  SetElements(queue, "AddWeightGradient", count, sum,
              [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(sum[i]) + ToFloat(x[i]); });
}

// Takes the layer's input, weights and output, or their gradients.
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
      fold_(layer.own_bias, layer.fused_layers),
      forward_{layer.Forward(fused)},
      to_input_{layer.ToInput()},
      to_weights_{layer.ToWeights()} {}

// In channels last each pixel is an image of one element per channel.
CudaPlanes CudnnConvState::OutputPlanes() const {
  const int64_t images = layer_.spec.batch, channels = layer_.OutputChannels();
  const int64_t size = layer_.OutputCount() / (images * channels);
  if (layer_.spec.channels_last) return {images * size, channels, 1};
  return {images, channels, size};
}

const void* CudnnConvState::Filters(const ExecContext& context, const void* weight, bool fixed,
                                    ScratchCutter* cutter) {
  if (!layer_.TransposesFilters()) return weight;
  const FilterTranspose transpose(layer_.spec);
  const CudaQueue& queue = BoundQueue(context);
  if (!fixed) {
    void* transposed = cutter->Take<std::byte>(transpose.Bytes());
    transpose.ToChannelsLast(queue, weight, transposed);
    return transposed;
  }
  if (transposed_.view().empty()) {
    transposed_ = Tensor(Shape{transpose.Bytes()}, DType::kU8, context.allocator());
    transpose.ToChannelsLast(queue, weight, transposed_.view().raw());
  }
  return transposed_.view().raw();
}

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
  const void* weight =
      Filters(args.context, fold_.any() ? fold_.weight() : args.parameters[0].raw(),
              args.weights_fixed, &cutter);
  const void* own_bias = layer_.own_bias ? args.parameters[1].raw() : nullptr;
  const void* bias = fold_.any() ? fold_.bias() : own_bias;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    void* output = args.outputs[i].raw();
    CudnnConvMemory memory =
        MemoryOf(layer_.transposed, args.inputs[i].raw(), weight, output, workspace);
    if (forward_.spec.bias) memory.bias = bias;
    if (forward_.spec.sum) memory.sum = args.inputs.back().raw();
    Run(queue, memory, &forward_);
    if (fused_) continue;
    const void* sum = layer_.sum ? args.inputs.back().raw() : nullptr;
    CudaAddBiasRelu(queue, spec.dtype, OutputPlanes(), bias, sum, layer_.relu, output);
  }
}

void CudnnConvState::AddBiasGradient(const CudaQueue& queue, const void* dy, double* sums,
                                     const TensorView& dbias) const {
  const DType dtype = layer_.spec.dtype;
  if (!layer_.spec.channels_last) {
    return CudaAddBiasGradient(queue, dtype, OutputPlanes(), dy, dbias.raw());
  }
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    AddGroupSums(queue, layer_.OutputGroups(), static_cast<const T*>(dy), sums, Elements<T>(dbias));
  });
}

void CudnnConvState::AddParameterGradients(const BackwardArgs& args, size_t i, const void* dy,
                                           const GradientScratch& scratch) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  const TensorView& dbias = At(args.parameter_grads, 1);
  if (!dbias.empty()) {
    AddBiasGradient(queue, dy, scratch.sums, dbias);
  }
  if (args.parameter_grads[0].empty()) return;
  // Few cuDNN engines accumulate, so the gradient is computed in scratch.
  void* dweight = scratch.dweight;
  const CudnnConvMemory memory =
      MemoryOf(layer_.transposed, args.inputs[i].raw(), dweight, dy, scratch.workspace);
  Run(queue, memory, &to_weights_);
  if (layer_.TransposesFilters()) {
    return FilterTranspose(spec).AddFromChannelsLast(queue, dweight, args.parameter_grads[0].raw());
  }
  DispatchCudaFloat(spec.dtype, [&]<typename T>(T) {
    AddTo(queue, spec.FilterCount(), static_cast<const T*>(dweight),
          Elements<T>(args.parameter_grads[0]));
  });
}

void CudnnConvState::Backward(const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  const auto bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  ScratchCutter cutter(args.scratch);
  GradientScratch scratch{};
  scratch.workspace = TakeWorkspace(spec, &cutter);
  scratch.dweight = cutter.Take<std::byte>(spec.FilterCount() * bytes);
  scratch.sums = cutter.Take<double>(layer_.BiasSums());
  void* masked = layer_.relu.on ? cutter.Take<std::byte>(layer_.OutputCount() * bytes) : nullptr;
  const bool to_input =
      std::ranges::any_of(args.input_grads, [](const TensorView& dx) { return !dx.empty(); });
  const void* weight =
      to_input ? Filters(args.context, args.parameters[0].raw(), false, &cutter) : nullptr;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const void* dy = args.output_grads[i].raw();
    if (layer_.relu.on) {
      CudaMaskByOutput(queue, spec.dtype, layer_.OutputCount(), layer_.relu.slope,
                       args.outputs[i].raw(), dy, masked);
      dy = masked;
    }
    AddParameterGradients(args, i, dy, scratch);
    void* dx = args.input_grads[i].raw();
    if (dx == nullptr) continue;
    Run(queue, MemoryOf(layer_.transposed, dx, weight, dy, scratch.workspace), &to_input_);
  }
}

}  // namespace crema
