// InnerProduct on the GPU; see inner_product.cc.
#include "crema.pb.h"
#include "layers/arithmetic/inner_product_cuda.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/gemm.h"
#include "math/cuda/group_sums.cuh"
#include "math/relu_rule.h"
#include "math/scratch.h"

namespace crema {
namespace {

using Sizes = InnerProductSizes;

// y = relu(sum + bias). Null `bias` means none. A row of `sum`, which may be y, has `stride`
// elements.
template <typename T>
void AddBiasRelu(const CudaQueue& queue, const Sizes& s, const T* sum, int64_t stride,
                 const T* bias, T* y) {
  const int64_t columns = s.columns, gap = stride - columns;
  const bool relu = s.relu.on;
  const float slope = s.relu.slope;
  SetElements(queue, "AddBiasRelu", s.rows * columns, y, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t r = Quotient(i, columns);
    float value = ToFloat(sum[i + r * gap]);
    if (bias != nullptr) value += ToFloat(bias[i - r * columns]);
    if (relu) ApplyRelu(slope, &value);
    return value;
  });
}

// Copies a dense matrix and adds columns and rows of zeros.
template <typename T>
void PadMatrix(const CudaQueue& queue, int64_t rows, int64_t columns, const T* from,
               int64_t padded_rows, int64_t padded_columns, T* to) {
  const int64_t gap = padded_columns - columns;
  SetElements(queue, "PadMatrix", padded_rows * padded_columns, to,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t r = Quotient(i, padded_columns);
                const bool inside = r < rows && i - r * padded_columns < columns;
                return inside ? ToFloat(from[i - r * gap]) : 0.0F;
              });
}

// Weights with padded columns of the product: rows of zeros, or columns if they are transposed.
template <typename T>
void PadWeights(const CudaQueue& queue, const Sizes& s, int64_t padded, const T* weights, T* to) {
  if (s.transpose) return PadMatrix(queue, s.depth, s.columns, weights, s.depth, padded, to);
  PadMatrix(queue, s.columns, s.depth, weights, padded, s.depth, to);
}

// Scratch memory of a padded product; nothing if `padded` is 0.
struct PaddedScratch {
  PaddedScratch(const Sizes& s, int64_t padded, DType dtype, ScratchCutter* cutter) {
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    weights = cutter->Take<std::byte>(padded * s.depth * size);
    output = cutter->Take<std::byte>(padded * s.rows * size);
  }
  std::byte *weights, *output;  // or the gradient of the output
};

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

int64_t InnerProductSizes::PaddedColumns(DType dtype) const {
  constexpr int64_t kAligned = 8, kBlock = 64;
  // Below, the copies would cost more than they save.
  constexpr int64_t kFewest = 256, kFewestProducts = int64_t{1} << 28;
  if (SizeOf(dtype) != 2 || columns % kAligned == 0) return 0;
  if (rows < kFewest || columns < kFewest) return 0;
  if (rows * columns < kFewestProducts / std::max<int64_t>(1, depth)) return 0;
  return (columns + kBlock - 1) / kBlock * kBlock;
}

size_t CudaInnerProductForwardScratch(const OpDesc& query) {
  const Sizes s(query.layer, query.context.inputs[0].shape, query.fused);
  const DType dtype = query.context.dtype;
  const int64_t padded = s.PaddedColumns(dtype);
  if (padded == 0) return 0;
  return ScratchCutter::Booked(
      [&](ScratchCutter* cutter) { PaddedScratch(s, padded, dtype, cutter); });
}

namespace {

void ForwardPadded(const Sizes& s, int64_t padded, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  ScratchCutter cutter(args.scratch);
  const PaddedScratch scratch(s, padded, x.dtype(), &cutter);
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    auto* weights = reinterpret_cast<T*>(scratch.weights);
    auto* sums = reinterpret_cast<T*>(scratch.output);
    PadWeights(queue, s, padded, Elements<T>(args.parameters[0]), weights);
    CudaGemm(queue, x.dtype(), false, !s.transpose, s.rows, padded, s.depth, x.raw(), s.depth,
             weights, s.transpose ? padded : s.depth, 0, sums, padded);
    AddBiasRelu(queue, s, sums, padded, s.bias ? Elements<T>(args.parameters[1]) : nullptr,
                Elements<T>(args.outputs[0]));
  });
}

}  // namespace

void CudaInnerProductForward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const Sizes s(layer, x.shape(), args.fused);
  if (const int64_t padded = s.PaddedColumns(x.dtype())) return ForwardPadded(s, padded, args);
  void* y = args.outputs[0].raw();
  CudaGemm(queue, x.dtype(), false, !s.transpose, s.rows, s.columns, s.depth, x.raw(), s.depth,
           args.parameters[0].raw(), s.transpose ? s.columns : s.depth, 0, y, s.columns);
  if (!s.bias && !s.relu.on) return;
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    AddBiasRelu(queue, s, static_cast<const T*>(y), s.columns,
                s.bias ? Elements<T>(args.parameters[1]) : nullptr, static_cast<T*>(y));
  });
}

namespace {

GroupLayout ColumnsOf(const Sizes& s) { return {1, s.rows, s.columns, 1}; }

struct BackwardScratch {
  BackwardScratch(const Sizes& s, DType dtype, ScratchCutter* cutter) {
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    if (s.relu.on) masked = cutter->Take<std::byte>(s.rows * s.columns * size);
    if (s.bias) sums = cutter->Take<double>(GroupSumsScratch(ColumnsOf(s)));
    const PaddedScratch padded(s, s.PaddedColumns(dtype), dtype, cutter);
    weights = padded.weights;
    gradient = padded.output;
  }
  std::byte* masked = nullptr;    // dy masked by the fused ReLU
  double* sums = nullptr;         // parts of the gradient of the bias
  std::byte *weights, *gradient;  // padded
};

// Returns dy masked by the fused ReLU, if there is one.
const void* MaskedGradient(const CudaQueue& queue, const Sizes& s, const BackwardArgs& args,
                           void* masked) {
  const ConstTensorView& dy = args.output_grads[0];
  if (!s.relu.on) return dy.raw();
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    MaskGradient(queue, dy.count(), s.relu.slope, Elements<T>(args.outputs[0]), Elements<T>(dy),
                 static_cast<T*>(masked));
  });
  return masked;
}

}  // namespace

size_t CudaInnerProductBackwardScratch(const OpDesc& query) {
  const Sizes s(query.layer, query.context.inputs[0].shape, query.fused);
  return ScratchCutter::Booked(
      [&](ScratchCutter* cutter) { BackwardScratch(s, query.context.dtype, cutter); });
}

void CudaInnerProductBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const DType dtype = x.dtype();
  const Sizes s(layer, x.shape(), args.fused);
  ScratchCutter cutter(args.scratch);
  const BackwardScratch scratch(s, dtype, &cutter);
  const void* dy = MaskedGradient(queue, s, args, scratch.masked);
  if (s.bias && !args.parameter_grads[1].empty()) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      AddGroupSums(queue, ColumnsOf(s), static_cast<const T*>(dy), scratch.sums,
                   Elements<T>(args.parameter_grads[1]));
    });
  }
  const void* weights = args.parameters[0].raw();
  int64_t columns = s.columns;  // in memory
  if (const int64_t padded = s.PaddedColumns(dtype)) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      PadMatrix(queue, s.rows, s.columns, static_cast<const T*>(dy), s.rows, padded,
                reinterpret_cast<T*>(scratch.gradient));
      if (args.input_grads[0].empty()) return;
      PadWeights(queue, s, padded, static_cast<const T*>(weights),
                 reinterpret_cast<T*>(scratch.weights));
    });
    dy = scratch.gradient;
    weights = scratch.weights;
    columns = padded;
  }
  if (!args.parameter_grads[0].empty()) {
    void* dweight = args.parameter_grads[0].raw();
    if (s.transpose) {
      CudaGemm(queue, dtype, true, false, s.depth, s.columns, s.rows, x.raw(), s.depth, dy, columns,
               1, dweight, s.columns);
    } else {
      CudaGemm(queue, dtype, true, false, s.columns, s.depth, s.rows, dy, columns, x.raw(), s.depth,
               1, dweight, s.depth);
    }
  }
  if (!args.input_grads[0].empty()) {
    CudaGemm(queue, dtype, false, s.transpose, s.rows, s.depth, columns, dy, columns, weights,
             s.transpose ? columns : s.depth, 0, args.input_grads[0].raw(), s.depth);
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
                              .forward_scratch = CudaInnerProductForwardScratch,
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
