// InnerProduct on the GPU; see inner_product.cc.
#include "crema.pb.h"
#include "layers/arithmetic/inner_product_cuda.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/gemm.h"
#include "math/cuda/sums.cuh"
#include "math/relu_rule.h"

namespace crema {
namespace {

using Sizes = InnerProductSizes;

// y = relu(y + bias). Null `bias` means none.
template <typename T>
void AddBiasRelu(const CudaQueue& queue, const Sizes& s, const T* bias, T* y) {
  const int64_t columns = s.columns;
  const bool relu = s.relu.on;
  const float slope = s.relu.slope;
  ForElements(queue, "AddBiasRelu", s.rows * columns, [=] CREMA_HOST_DEVICE(int64_t i) {
    float value = ToFloat(y[i]);
    if (bias != nullptr) value += ToFloat(bias[i % columns]);
    if (relu) ApplyRelu(slope, &value);
    y[i] = FromFloat<T>(value);
  });
}

template <typename T>
void MaskGradient(const CudaQueue& queue, int64_t count, float slope, const T* y, const T* dy,
                  T* masked) {
  ForElements(queue, "MaskGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float d = ToFloat(dy[i]);
    MaskByRelu(slope, ToFloat(y[i]), &d);
    masked[i] = FromFloat<T>(d);
  });
}

}  // namespace

InnerProductSizes::InnerProductSizes(const Layer& layer, const Shape& input,
                                     std::span<const Layer* const> fused)
    : transpose(layer.param().inner_product_param().transpose()),
      bias(layer.param().inner_product_param().bias_term()),
      relu(ReluOf(layer, fused)) {
  const int axis = input.CanonicalAxis(layer.param().inner_product_param().axis());
  rows = input.count(0, axis);
  depth = input.count(axis);
  columns = layer.param().inner_product_param().num_output();
}

void CudaInnerProductForward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const Sizes s(layer, x.shape(), args.fused);
  void* y = args.outputs[0].raw();
  CudaGemm(queue, x.dtype(), false, !s.transpose, s.rows, s.columns, s.depth, x.raw(), s.depth,
           args.parameters[0].raw(), s.transpose ? s.columns : s.depth, 0, y, s.columns);
  if (!s.bias && !s.relu.on) return;
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    AddBiasRelu(queue, s, s.bias ? Elements<T>(args.parameters[1]) : nullptr, static_cast<T*>(y));
  });
}

size_t CudaInnerProductBackwardScratch(const OpDesc& query) {
  if (!ReluOf(query).on) return 0;
  const auto count = static_cast<size_t>(query.info.outputs[0].shape.count());
  return count * SizeOf(query.context.dtype);
}

namespace {

// Returns dy masked by the fused ReLU, in scratch memory; dy itself without one.
const void* MaskedGradient(const CudaQueue& queue, const Sizes& s, const BackwardArgs& args) {
  const ConstTensorView& dy = args.output_grads[0];
  if (!s.relu.on) return dy.raw();
  void* masked = args.scratch.data();
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    MaskGradient(queue, dy.count(), s.relu.slope, Elements<T>(args.outputs[0]), Elements<T>(dy),
                 static_cast<T*>(masked));
  });
  return masked;
}

}  // namespace

void CudaInnerProductBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const DType dtype = x.dtype();
  const Sizes s(layer, x.shape(), args.fused);
  const void* dy = MaskedGradient(queue, s, args);
  if (!args.parameter_grads[0].empty()) {
    void* dweight = args.parameter_grads[0].raw();
    if (s.transpose) {
      CudaGemm(queue, dtype, true, false, s.depth, s.columns, s.rows, x.raw(), s.depth, dy,
               s.columns, 1, dweight, s.columns);
    } else {
      CudaGemm(queue, dtype, true, false, s.columns, s.depth, s.rows, dy, s.columns, x.raw(),
               s.depth, 1, dweight, s.depth);
    }
  }
  if (s.bias && !args.parameter_grads[1].empty()) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      AddColumnSums(queue, s.rows, s.columns, s.columns, static_cast<const T*>(dy),
                    Elements<T>(args.parameter_grads[1]));
    });
  }
  if (!args.input_grads[0].empty()) {
    CudaGemm(queue, dtype, false, s.transpose, s.rows, s.depth, s.columns, dy, s.columns,
             args.parameters[0].raw(), s.transpose ? s.columns : s.depth, 0,
             args.input_grads[0].raw(), s.depth);
  }
}

namespace {

// With one pixel, an input in channels last is the same in memory. These weights fit no other
// number of pixels.
Support SupportsOnePixel(const OpDesc& query) {
  const Shape& x = query.context.inputs[0].shape;
  const int64_t axis = query.layer.param().inner_product_param().axis();
  if (x.axes() > 2 && x.CanonicalAxis(axis) == 1 && SpaceOf(x) == 1) return {};
  return Support::No("is for channels and one pixel");
}

ImplementationPtr OfOnePixel(const ImplementationPtr& implementation) {
  ImplementationFacts facts = *implementation;
  facts.name += " NHWC";
  facts.input_format = {Layout::kNHWC};
  return std::make_shared<ImplementationAdapter>(
      std::move(facts), implementation,
      std::vector<ImplementationAdapter::Check>{SupportsOnePixel});
}

}  // namespace

void RegisterInnerProductCuda(Registry& registry) {
  const ImplementationPtr implementation =
      MakeCudaImplementation(CudaInnerProductForward, CudaInnerProductBackward,
                             {.can_fuse = CanFuseRelu,
                              .backward_scratch = CudaInnerProductBackwardScratch,
                              .info = InfoWithRelu},
                             "cublas");
  registry.AddImplementation("InnerProduct", OfOnePixel(implementation));
#ifdef __CUDACC__
  registry.AddImplementation("InnerProduct", OfOnePixel(CublasLtInnerProductImplementation()));
#endif
  registry.AddImplementation("InnerProduct", implementation);
#ifdef __CUDACC__
  registry.AddImplementation("InnerProduct", CublasLtInnerProductImplementation());
#endif
}

}  // namespace crema
