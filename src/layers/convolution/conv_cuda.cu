// See conv_cuda.h.
#include <algorithm>

#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/conv_matmul.h"
#include "math/cuda/gemm.h"
#include "math/cuda/im2col.h"
#include "math/cuda/sums.cuh"
#include "math/relu_rule.h"

namespace crema {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // scratch bytes, unless one image needs more

// One matrix per image and group. `row`, `image` and `group` are strides in elements.
struct Matrices {
  const void* data;
  int64_t row, image, group;
  bool transposed = false;
};

// Computes c = a * b for each image and group: m x n matrices, with sums over k.
void Multiply(const CudaConv& conv, int64_t images, int64_t m, int64_t n, int64_t k,
              const Matrices& a, const Matrices& b, const Matrices& c) {
  const int64_t groups = conv.g.groups;
  const bool by_group = groups <= images;  // fewest calls
  const auto step = [&](const Matrices& x) { return by_group ? x.image : x.group; };
  const CudaBatch batch{by_group ? images : groups, step(a), step(b), step(c)};
  for (int64_t i = 0; i < (by_group ? groups : images); ++i) {
    const auto at = [&](const Matrices& x) {
      return ElementAt(x.data, conv.dtype, i * (by_group ? x.group : x.image));
    };
    CudaGemmBatched(conv.queue, conv.dtype, batch, a.transposed, b.transposed, m, n, k, at(a),
                    a.row, at(b), b.row, 0, const_cast<void*>(at(c)), c.row);
  }
}

const void* Columns(const CudaConv& conv, const CudaConvScratch& scratch, int64_t images,
                    const void* x) {
  if (scratch.column_count == 0) return x;
  CudaIm2col(conv.queue, conv.dtype, conv.g.window, images * conv.g.in_channels, x,
             scratch.columns);
  return scratch.columns;
}

// Returns true if each image gives one column: the columns of all images are then the rows of one
// matrix.
bool OneColumn(const ConvGeometry& g) { return g.window.OutSize() == 1; }

template <typename T>
void AddParts(const CudaQueue& queue, int64_t parts, int64_t count, const T* part, T* sum) {
  AddColumnSums(
      queue, parts, count,
      [=] CREMA_HOST_DEVICE(int64_t p, int64_t i) { return ToFloat(part[p * count + i]); }, sum);
}

template <typename T>
void AddBiasRelu(const CudaQueue& queue, const CudaPlanes& planes, const T* bias, const T* sum,
                 FusedRelu relu, T* y) {
  const int64_t channels = planes.channels, size = planes.size;
  const bool on = relu.on;
  const float slope = relu.slope;
  ForElements(queue, "AddBiasRelu", planes.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    float value = ToFloat(y[i]);
    if (bias != nullptr) value += ToFloat(bias[i / size % channels]);
    if (sum != nullptr) value += ToFloat(sum[i]);
    if (on) ApplyRelu(slope, &value);
    y[i] = FromFloat<T>(value);
  });
}

template <typename T>
void MaskByOutput(const CudaQueue& queue, int64_t count, float slope, const T* y, const T* dy,
                  T* masked) {
  ForElements(queue, "MaskByOutput", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float d = ToFloat(dy[i]);
    MaskByRelu(slope, ToFloat(y[i]), &d);
    masked[i] = FromFloat<T>(d);
  });
}

template <typename T>
void AddBiasGradient(const CudaQueue& queue, const CudaPlanes& planes, const T* dy, T* dbias) {
  const int64_t channels = planes.channels, size = planes.size;
  AddRowSums(
      queue, channels, planes.images * size,
      [=] CREMA_HOST_DEVICE(int64_t c, int64_t i) {
        return ToFloat(dy[(i / size * channels + c) * size + i % size]);
      },
      dbias);
}

}  // namespace

CudaConvScratch::CudaConvScratch(const ConvGeometry& g, DType type, int64_t masked_elements,
                                 bool backward)
    : dtype(type),
      column_count(IsCudaDepthwise(g) ? 0 : ConvColumnCount(g)),
      part_count(backward && !IsCudaDepthwise(g) && !OneColumn(g) ? ConvWeightCount(g) : 0),
      masked_count(masked_elements) {
  const int64_t image =
      (column_count + part_count + masked_count) * static_cast<int64_t>(SizeOf(dtype));
  images = std::min(g.batch, std::max<int64_t>(1, kMostBytes / std::max<int64_t>(1, image)));
  if (image == 0) images = g.batch;
}

size_t CudaConvScratch::Bytes() const {
  const auto bytes = [&](int64_t count) {
    return ScratchBytes<std::byte>(images * count * static_cast<int64_t>(SizeOf(dtype)));
  };
  return bytes(column_count) + bytes(part_count) + bytes(masked_count) + kScratchSlack;
}

void CudaConvScratch::Take(std::span<std::byte> scratch) {
  ScratchCutter cutter(scratch);
  const auto take = [&](int64_t count) -> void* {
    return cutter.Take<std::byte>(images * count * static_cast<int64_t>(SizeOf(dtype)));
  };
  columns = take(column_count);
  parts = take(part_count);
  masked = take(masked_count);
}

void CudaConv::Product(const CudaConvScratch& scratch, int64_t images, const void* x,
                       const void* weight, void* y) const {
  if (IsCudaDepthwise(g)) return CudaDepthwiseProduct(*this, images, x, weight, y);
  const void* columns = Columns(*this, scratch, images, x);
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  if (OneColumn(g)) {
    CudaGemmBatched(queue, dtype, {g.groups, k, m * k, m}, false, true, images, m, k, columns,
                    g.groups * k, weight, k, 0, y, g.out_channels);
    return;
  }
  Multiply(*this, images, m, n, k, {weight, k, 0, m * k}, {columns, n, g.groups * k * n, k * n},
           {y, n, g.OutImage(), m * n});
}

void CudaConv::Transposed(const CudaConvScratch& scratch, int64_t images, const void* dy,
                          const void* weight, void* dx) const {
  if (IsCudaDepthwise(g)) return CudaDepthwiseTransposed(*this, images, dy, weight, dx);
  void* columns = scratch.column_count == 0 ? dx : scratch.columns;
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  if (OneColumn(g)) {
    CudaGemmBatched(queue, dtype, {g.groups, m, m * k, k}, false, false, images, k, m, dy,
                    g.out_channels, weight, k, 0, columns, g.groups * k);
  } else {
    Multiply(*this, images, k, n, m, {weight, k, 0, m * k, true}, {dy, n, g.OutImage(), m * n},
             {columns, n, g.groups * k * n, k * n});
  }
  if (columns != dx) CudaCol2im(queue, dtype, g.window, images * g.in_channels, columns, dx);
}

// Each image writes a part of its own, so that the products need not wait for each other and 16-bit
// values are rounded once.
void CudaConv::AddWeightGradient(const CudaConvScratch& scratch, int64_t images, const void* x,
                                 const void* dy, void* dweight) const {
  if (IsCudaDepthwise(g)) return CudaAddDepthwiseGradient(*this, images, x, dy, dweight);
  const void* columns = Columns(*this, scratch, images, x);
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  if (OneColumn(g)) {
    CudaGemmBatched(queue, dtype, {g.groups, m, k, m * k}, true, false, m, k, images, dy,
                    g.out_channels, columns, g.groups * k, 1, dweight, k);
    return;
  }
  Multiply(*this, images, m, k, n, {dy, n, g.OutImage(), m * n},
           {columns, n, g.groups * k * n, k * n, true},
           {scratch.parts, k, g.groups * m * k, m * k});
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    AddParts(queue, images, ConvWeightCount(g), static_cast<const T*>(scratch.parts),
             static_cast<T*>(dweight));
  });
}

void CudaAddBiasRelu(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                     const void* bias, const void* sum, FusedRelu relu, void* y) {
  if (bias == nullptr && sum == nullptr && !relu.on) return;
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    AddBiasRelu(queue, planes, static_cast<const T*>(bias), static_cast<const T*>(sum), relu,
                static_cast<T*>(y));
  });
}

const void* CudaReluGradient(const CudaQueue& queue, const CudaConvScratch& scratch, FusedRelu relu,
                             const BackwardArgs& args, size_t output, int64_t first,
                             int64_t count) {
  const void* dy = ElementAt(args.output_grads[output].raw(), scratch.dtype, first);
  if (!relu.on) return dy;
  const void* y = ElementAt(args.outputs[output].raw(), scratch.dtype, first);
  CudaMaskByOutput(queue, scratch.dtype, count, relu.slope, y, dy, scratch.masked);
  return scratch.masked;
}

void CudaMaskByOutput(const CudaQueue& queue, DType dtype, int64_t count, float slope,
                      const void* y, const void* dy, void* masked) {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    MaskByOutput(queue, count, slope, static_cast<const T*>(y), static_cast<const T*>(dy),
                 static_cast<T*>(masked));
  });
}

void CudaAddBiasGradient(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                         const void* dy, void* dbias) {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    AddBiasGradient(queue, planes, static_cast<const T*>(dy), static_cast<T*>(dbias));
  });
}

}  // namespace crema
