// InnerProduct on the GPU; see inner_product.cc.
#include "graph/registry.h"
#include "math/cuda/gemm.h"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

// The matrices of a layer: the input is rows x depth, the output rows x columns.
struct Sizes {
  Sizes(const Layer& layer, const Shape& input)
      : transpose(layer.param().inner_product_param().transpose()),
        bias(layer.param().inner_product_param().bias_term()),
        relu(layer.param().has_fused_relu_param()),
        slope(layer.param().fused_relu_param().negative_slope()) {
    const int axis = input.CanonicalAxis(layer.param().inner_product_param().axis());
    rows = input.count(0, axis);
    depth = input.count(axis);
    columns = layer.param().inner_product_param().num_output();
  }
  bool transpose, bias, relu;
  float slope;
  int64_t rows, depth, columns;
};

// y = relu(y + bias); `bias` may be null.
template <typename T>
__global__ void AddBiasRelu(int64_t count, int64_t columns, const T* bias, bool relu, float slope,
                            T* y) {
  for (int64_t i = FirstElement(); i < count; i += ElementStep()) {
    float value = ToFloat(y[i]);
    if (bias != nullptr) value += ToFloat(bias[i % columns]);
    if (relu) value = value > 0 ? value : slope * value;
    y[i] = FromFloat<T>(value);
  }
}

template <typename T>
__global__ void MaskGradient(int64_t count, float slope, const T* y, const T* dy, T* masked) {
  for (int64_t i = FirstElement(); i < count; i += ElementStep()) {
    masked[i] = ToFloat(y[i]) > 0 ? dy[i] : FromFloat<T>(slope * ToFloat(dy[i]));
  }
}

// sums[c] += the sum of column c. A block takes 32 columns; its 8 rows of threads take every eighth
// row of the matrix, so the order of additions is always the same.
constexpr int kSumColumns = 32;
constexpr int kSumRows = 8;
template <typename T>
__global__ void AddColumnSumsKernel(int64_t rows, int64_t columns, const T* x, T* sums) {
  __shared__ float partial[kSumRows][kSumColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  float sum = 0;
  if (column < columns) {
    for (int64_t r = threadIdx.y; r < rows; r += kSumRows) sum += ToFloat(x[r * columns + column]);
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int r = 1; r < kSumRows; ++r) sum += partial[r][threadIdx.x];
  sums[column] = FromFloat<T>(ToFloat(sums[column]) + sum);
}

template <typename T>
void LaunchColumnSums(const CudaQueue& queue, const Sizes& s, const void* dy, void* sums) {
  const int64_t blocks = (s.columns + kSumColumns - 1) / kSumColumns;
  AddColumnSumsKernel<<<static_cast<unsigned>(blocks), dim3(kSumColumns, kSumRows), 0,
                        queue.stream()>>>(s.rows, s.columns, static_cast<const T*>(dy),
                                          static_cast<T*>(sums));
  CheckLaunch("AddColumnSums");
}

Support Supports(const KernelQuery& query) {
  if (IsCudaFloat(query.context.dtype)) return {};
  return Support::No("is for f32, f16 and bf16");
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const Sizes s(layer, x.shape());
  void* y = args.outputs[0].raw();
  CudaGemm(queue, x.dtype(), false, !s.transpose, s.rows, s.columns, s.depth, x.raw(), s.depth,
           args.learned[0].raw(), s.transpose ? s.columns : s.depth, 0, y, s.columns);
  if (!s.bias && !s.relu) return;
  const int64_t count = s.rows * s.columns;
  DispatchCudaFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* bias = s.bias ? static_cast<const T*>(args.learned[1].raw()) : nullptr;
    LaunchElements(queue, "AddBiasRelu", AddBiasRelu<T>, count, count, s.columns, bias, s.relu,
                   s.slope, static_cast<T*>(y));
  });
}

// Room for the gradient behind the fused ReLU.
size_t BackwardScratch(const KernelQuery& query) {
  if (!query.layer.param().has_fused_relu_param()) return 0;
  const auto count = static_cast<size_t>(query.info.outputs[0].shape.count());
  return count * SizeOf(query.context.dtype);
}

// dy behind the fused ReLU, in scratch memory; dy itself without one.
const void* MaskedGradient(const CudaQueue& queue, const Sizes& s, const BackwardArgs& args) {
  const ConstTensorView& dy = args.output_grads[0];
  if (!s.relu) return dy.raw();
  void* masked = nullptr;
  DispatchCudaFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    masked = args.scratch.data();
    LaunchElements(queue, "MaskGradient", MaskGradient<T>, dy.count(), dy.count(), s.slope,
                   static_cast<const T*>(args.outputs[0].raw()), static_cast<const T*>(dy.raw()),
                   static_cast<T*>(masked));
  });
  return masked;
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const DType dtype = x.dtype();
  const Sizes s(layer, x.shape());
  const void* dy = MaskedGradient(queue, s, args);
  if (!args.learned_grads[0].empty()) {
    void* dweight = args.learned_grads[0].raw();
    if (s.transpose) {
      CudaGemm(queue, dtype, true, false, s.depth, s.columns, s.rows, x.raw(), s.depth, dy,
               s.columns, 1, dweight, s.columns);
    } else {
      CudaGemm(queue, dtype, true, false, s.columns, s.depth, s.rows, dy, s.columns, x.raw(),
               s.depth, 1, dweight, s.depth);
    }
  }
  if (s.bias && !args.learned_grads[1].empty()) {
    DispatchCudaFloat(dtype, [&](auto zero) {
      LaunchColumnSums<decltype(zero)>(queue, s, dy, args.learned_grads[1].raw());
    });
  }
  if (!args.input_grads[0].empty()) {
    CudaGemm(queue, dtype, false, s.transpose, s.rows, s.depth, s.columns, dy, s.columns,
             args.learned[0].raw(), s.transpose ? s.columns : s.depth, 0, args.input_grads[0].raw(),
             s.depth);
  }
}

}  // namespace

void RegisterInnerProductCuda(Registry& registry) {
  Kernel kernel;
  kernel.name = "cublas";
  kernel.device = DeviceType::kCuda;
  kernel.supports = Supports;
  kernel.forward = Forward;
  kernel.backward = Backward;
  kernel.backward_scratch = BackwardScratch;
  registry.AddKernel("InnerProduct", std::move(kernel));
}

}  // namespace crema
