// DeformableConvolution on the GPU; see deformable_convolution.cc.
#include <algorithm>

#include "crema.pb.h"
#include "layers/convolution/conv_cuda.h"
#include "layers/convolution/deformable_convolution.h"
#include "layers/gpu_implementation.h"
#include "layers/sampling/grid_points.cuh"

namespace crema {
namespace {

template <typename T>
void OffsetGradient(const CudaQueue& queue, const DeformablePoints<T>& of, const T* x,
                    const T* dcolumns, T* doffset) {
  const DeformablePoints<T> points = of;
  const int64_t outputs = of.out_height * of.out_width;
  SlopesOfPoints(queue, of, x, dcolumns, [=] CREMA_HOST_DEVICE(int64_t at, const float* slope) {
    T* down = doffset + points.OffsetOf(at);
    down[0] = FromFloat<T>(slope[1]);
    down[outputs] = FromFloat<T>(slope[0]);
  });
}

// The columns have the place of a masked gradient.
CudaConvScratch ConvScratch(const DeformableGeometry& g, DType dtype, bool backward) {
  return CudaConvScratch(g.products, dtype, g.ColumnImage(), backward);
}

template <bool kBackward>
size_t ScratchOf(const OpDesc& query) {
  const DeformableGeometry g(query.layer, query.context.inputs[0].shape,
                             query.context.inputs[1].shape);
  const CudaConvScratch scratch = ConvScratch(g, query.context.dtype, kBackward);
  const size_t taps = SpreadScratch(g.Points<float>(scratch.images, nullptr).s);
  return scratch.Bytes() + (kBackward ? taps : 0);
}

// The images of a pass, as many at a time as the scratch memory holds.
template <typename Args, typename Body>
void ForImages(const Layer& layer, const Args& args, bool backward, const Body& body) {
  const DeformableGeometry g(layer, args.inputs[0].shape(), args.inputs[1].shape());
  const DType dtype = args.inputs[0].dtype();
  const CudaConv conv{args.queue, g.products, dtype};
  CudaConvScratch scratch = ConvScratch(g, dtype, backward);
  scratch.Take(args.scratch);
  for (int64_t n = 0; n < g.conv.batch; n += scratch.images) {
    const int64_t images = std::min(scratch.images, g.conv.batch - n);
    body(g, conv, scratch, n, images, g.Points(images, args.x(1) + n * g.OffsetImage()));
  }
}

struct GpuDeformableConvolution {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    ForImages(layer, args, false,
              [&](const DeformableGeometry& g, const CudaConv& conv, const CudaConvScratch& scratch,
                  int64_t n, int64_t images, const DeformablePoints<T>& points) {
                T* const columns = static_cast<T*>(scratch.masked);
                T* const y = args.y() + n * g.conv.OutImage();
                SamplePoints(args.queue, points, args.x() + n * g.conv.InImage(), columns);
                conv.Product(scratch, images, columns, args.w(), y);
                CudaAddBiasRelu(args.queue, conv.dtype, {images, g.conv.out_channels, g.Outputs()},
                                args.w(1), nullptr, FusedRelu{}, y);
              });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    ForImages(layer, args, true,
              [&](const DeformableGeometry& g, const CudaConv& conv, const CudaConvScratch& scratch,
                  int64_t n, int64_t images, const DeformablePoints<T>& points) {
                BackwardImages(args, g, conv, scratch, n, images, points);
              });
  }

  template <typename T>
  static void BackwardImages(const GpuBackward<T>& args, const DeformableGeometry& g,
                             const CudaConv& conv, const CudaConvScratch& scratch, int64_t n,
                             int64_t images, const DeformablePoints<T>& points) {
    T* const columns = static_cast<T*>(scratch.masked);
    const T* x = args.x() + n * g.conv.InImage();
    const T* dy = args.dy() + n * g.conv.OutImage();
    if (args.dw(1) != nullptr) {
      CudaAddBiasGradient(args.queue, conv.dtype, {images, g.conv.out_channels, g.Outputs()}, dy,
                          args.dw(1));
    }
    if (args.dw() != nullptr) {
      SamplePoints(args.queue, points, x, columns);
      conv.AddWeightGradient(scratch, images, columns, dy, args.dw());
    }
    if (args.dx() == nullptr && args.dx(1) == nullptr) return;
    conv.Transposed(scratch, images, dy, args.w(), columns);
    if (args.dx() != nullptr) {
      SpreadToPlanes(args.queue, points, args.scratch.subspan(scratch.Bytes()), columns,
                     args.dx() + n * g.conv.InImage());
    }
    if (args.dx(1) == nullptr) return;
    OffsetGradient(args.queue, points, x, columns, args.dx(1) + n * g.OffsetImage());
  }

  static constexpr auto ForwardScratch = ScratchOf<false>;
  static constexpr auto BackwardScratch = ScratchOf<true>;
};

}  // namespace

void RegisterDeformableConvolutionCuda(Registry& registry) {
  registry.AddImplementation("DeformableConvolution",
                             CudaImplementation<GpuDeformableConvolution>());
}

}  // namespace crema
