#include <algorithm>
#include <memory>
#include <utility>

#include "core/device_memory.h"
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

// Adds the bias gradient. Channels are the innermost axis.
template <typename T>
void AddChannelSums(const CudaQueue& queue, const GroupLayout& channels, const T* dy,
                    double* scratch, T* dbias) {
  SumGroups(
      queue, channels,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) { return static_cast<double>(ToFloat(dy[at])); },
      scratch,
      [=] CREMA_HOST_DEVICE(int64_t c, double sum) {
        dbias[c] = FromFloat<T>(ToFloat(dbias[c]) + static_cast<float>(sum));
      });
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

CudnnConvState::CudnnConvState(const CudnnConvLayer& layer, bool fused,
                               const CudnnNormFusionPasses& does)
    : layer_(layer),
      fused_(fused),
      fold_(layer.own_bias, layer.fused_layers),
      forward_{layer.Forward(fused, does.forward)},
      to_input_{layer.ToInput(does.to_input)},
      to_weights_{layer.ToWeights(does.to_weights)} {}

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

void* CudnnConvState::TakeNormalized(bool wanted, ScratchCutter* cutter) const {
  const auto bytes = static_cast<int64_t>(SizeOf(layer_.spec.dtype));
  return wanted ? cutter->Take<std::byte>(layer_.spec.InCount() * bytes) : nullptr;
}

void CudnnConvState::NormalizeFor(const CudaQueue& queue, std::span<const ConstTensorView> inputs,
                                  const CudnnConvSpec& spec, void* scratch,
                                  CudnnConvMemory* memory) const {
  if (!layer_.norm_fusion.consumes_factors) return;
  const FactorRows factors(inputs.back().raw(), layer_.spec.in_channels);
  if (spec.normalized) {
    memory->scale = factors[kFactorRow];
    memory->shift = factors[kOffsetRow];
    return;
  }
  NormalizeInput(queue, spec.dtype, layer_.InputGroups(), memory->x, factors, scratch);
  memory->x = scratch;
}

void CudnnConvState::Forward(const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  if (spec.batch == 0) return;  // and the sums are not read
  ScratchCutter cutter(args.scratch);
  void* workspace = TakeWorkspace(spec, &cutter);
  if (fold_.any()) fold_.Make(args);
  const void* weight =
      Filters(args.context, fold_.any() ? fold_.weight() : args.parameters[0].raw(),
              args.weights_fixed, &cutter);
  const void* own_bias = layer_.own_bias ? args.parameters[1].raw() : nullptr;
  const void* bias = fold_.any() ? fold_.bias() : own_bias;
  const NormFusion& norm_fusion = layer_.norm_fusion;
  void* normalized =
      TakeNormalized(norm_fusion.consumes_factors && !forward_.spec.normalized, &cutter);
  const int64_t channels = layer_.OutputChannels();
  float* sums = norm_fusion.emits_sums ? Elements<float>(args.outputs.back()) : nullptr;
  for (size_t i = 0; i < args.outputs.size() - norm_fusion.outputs(); ++i) {
    void* output = args.outputs[i].raw();
    CudnnConvMemory memory =
        MemoryOf(layer_.transposed, args.inputs[i].raw(), weight, output, workspace);
    NormalizeFor(queue, args.inputs, forward_.spec, normalized, &memory);
    if (forward_.spec.bias) memory.bias = bias;
    if (forward_.spec.sum) memory.sum = args.inputs.back().raw();
    if (forward_.spec.statistics) {
      memory.sum_of_y = sums + kSumsRow * channels;
      memory.sum_of_squares = sums + kSquaresRow * channels;
    }
    Run(queue, memory, &forward_);
    if (sums != nullptr && !forward_.spec.statistics) {
      const GroupLayout groups = layer_.OutputGroups();
      void* scratch = cutter.Take<std::byte>(static_cast<int64_t>(FusedSumsScratch(groups)));
      SumOutput(queue, spec.dtype, groups, output, scratch, sums);
    }
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
    AddChannelSums(queue, layer_.OutputGroups(), static_cast<const T*>(dy), sums,
                   Elements<T>(dbias));
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
  CudnnConvMemory memory =
      MemoryOf(layer_.transposed, args.inputs[i].raw(), dweight, dy, scratch.workspace);
  NormalizeFor(queue, args.inputs, to_weights_.spec, scratch.normalized, &memory);
  Run(queue, memory, &to_weights_);
  if (layer_.TransposesFilters()) {
    return FilterTranspose(spec).AddFromChannelsLast(queue, dweight, args.parameter_grads[0].raw());
  }
  DispatchCudaFloat(spec.dtype, [&]<typename T>(T) {
    AddTo(queue, spec.FilterCount(), static_cast<const T*>(dweight),
          Elements<T>(args.parameter_grads[0]));
  });
}

void CudnnConvState::GiveToInput(const BackwardArgs& args, size_t i, const void* weight,
                                 const void* dy, const GradientScratch& scratch) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = to_input_.spec;
  void* dx = args.input_grads[i].raw();
  CudnnConvMemory memory = MemoryOf(layer_.transposed, dx, weight, dy, scratch.workspace);
  if (!layer_.norm_fusion.consumes_factors) return Run(queue, memory, &to_input_);
  const int64_t channels = spec.in_channels;
  const FactorRows factors(args.inputs.back().raw(), channels);
  const CudnnConvMemory::Norm norm =
      NormMemory(args.inputs[i].raw(), factors, Elements<float>(args.input_grads.back()), channels);
  if (spec.norm_gradient) memory.norm = norm;
  Run(queue, memory, &to_input_);
  if (spec.norm_gradient) return;
  MaskNormGradient(queue, spec.dtype, layer_.InputGroups(), norm, dx, scratch.fused_sums);
}

void CudnnConvState::Backward(const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const CudnnConvSpec& spec = layer_.spec;
  const auto bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  const NormFusion& norm_fusion = layer_.norm_fusion;
  if (spec.batch == 0) {
    if (norm_fusion.consumes_factors) FillWith(args.context, args.input_grads.back(), 0);
    return;
  }
  ScratchCutter cutter(args.scratch);
  GradientScratch scratch{};
  scratch.workspace = TakeWorkspace(spec, &cutter);
  scratch.dweight = cutter.Take<std::byte>(spec.FilterCount() * bytes);
  scratch.sums = cutter.Take<double>(layer_.BiasSums());
  scratch.normalized =
      TakeNormalized(norm_fusion.consumes_factors && !to_weights_.spec.normalized, &cutter);
  if (norm_fusion.consumes_factors && !to_input_.spec.norm_gradient) {
    scratch.fused_sums =
        cutter.Take<std::byte>(static_cast<int64_t>(FusedSumsScratch(layer_.InputGroups())));
  }
  void* masked = layer_.relu.on ? cutter.Take<std::byte>(layer_.OutputCount() * bytes) : nullptr;
  const bool to_input =
      std::ranges::any_of(args.input_grads, [](const TensorView& dx) { return !dx.empty(); });
  const void* weight =
      to_input ? Filters(args.context, args.parameters[0].raw(), false, &cutter) : nullptr;
  for (size_t i = 0; i < args.outputs.size() - norm_fusion.outputs(); ++i) {
    const void* dy = args.output_grads[i].raw();
    if (layer_.relu.on) {
      CudaMaskByOutput(queue, spec.dtype, layer_.OutputCount(), layer_.relu.slope,
                       args.outputs[i].raw(), dy, masked);
      dy = masked;
    }
    AddParameterGradients(args, i, dy, scratch);
    if (!args.input_grads[i].empty()) GiveToInput(args, i, weight, dy, scratch);
  }
}

}  // namespace crema
