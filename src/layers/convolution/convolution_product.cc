// Convolution with few output positions as an inner product: its patches are the rows of a matrix,
// which is the input itself if the filters cover the whole image once. Other implementations pack
// the weights in each pass, or compute 32 positions at a time.
#include "core/strings.h"
#include "layers/convolution/conv_matmul.h"
#include "layers/convolution/convolution_implementation.h"
#include "math/im2col.h"
#include "math/inner_product.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kMostRows = 5;  // if patches are copied; packing pays with 8

// Returns true if the only patch is the whole image.
bool CoversImage(const ConvWindow& w) {
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    if (w.out[i] != 1 || w.pad[i] != 0 || w.kernel[i] != w.in[i]) return false;
  }
  return true;
}

Support Supports(const OpDesc& query) {
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups != 1) return Support::No("is for one group");
  if (g.GroupDepth() == 0) return Support::No("there are no channels");
  if (CoversImage(g.window)) return {};
  if (query.backward) return Support::No("trains only filters that cover the whole image once");
  if (g.batch * g.window.OutSize() > kMostRows) {
    return Support::No(StrCat("is for at most ", kMostRows, " output positions of all images"));
  }
  return {};
}

InnerProductSize SizeOf(const ConvGeometry& g) {
  return {g.batch * g.window.OutSize(), g.GroupDepth(), g.out_channels};
}

void Transpose(int64_t rows, int64_t columns, const float* from, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

size_t ForwardScratch(const ConvGeometry& g, int64_t /*batch*/, int /*threads*/) {
  if (CoversImage(g.window)) return 0;
  const InnerProductSize size = SizeOf(g);
  return ScratchBytes<float>(size.inputs * g.window.OutSize()) +
         ScratchBytes<float>(size.rows * size.inputs) +
         ScratchBytes<float>(size.rows * size.outputs) + kScratchSlack;
}

void Forward(const ConvGeometry& g, int64_t batch, int threads, const float* x, const float* weight,
             const float* bias, FusedRelu relu, float* y, std::span<std::byte> scratch) {
  const InnerProductSize size = SizeOf(g);
  if (CoversImage(g.window)) {
    InnerProductForward(threads, size, x, weight, bias, relu, y);
    return;
  }
  const int64_t positions = g.window.OutSize();
  ScratchCutter cutter(scratch);
  float* columns = cutter.Take<float>(size.inputs * positions);
  float* rows = cutter.Take<float>(size.rows * size.inputs);
  float* sums = cutter.Take<float>(size.rows * size.outputs);
  for (int64_t n = 0; n < batch; ++n) {
    Im2col(g.window, g.in_channels, x + n * g.InImage(), columns);
    Transpose(size.inputs, positions, columns, rows + n * positions * size.inputs);
  }
  InnerProductForward(threads, size, rows, weight, bias, relu, sums);
  for (int64_t n = 0; n < batch; ++n) {
    Transpose(positions, size.outputs, sums + n * g.OutImage(), y + n * g.OutImage());
  }
}

size_t BackwardScratch(const ConvGeometry& g, int64_t /*batch*/, int /*threads*/, FusedRelu relu) {
  return InnerProductBackwardScratch<float>(SizeOf(g), relu);
}

void Backward(const ConvGeometry& g, int64_t /*batch*/, int threads, FusedRelu relu,
              const ConvGrads& grads, std::span<std::byte> scratch) {
  InnerProductBackward(threads, SizeOf(g), relu, grads, scratch);
}

struct ProductMaths {
  static const ConvGeometry& ShapeOf(const ConvGeometry& g) { return g; }
  static constexpr auto kForward = Forward;
  static constexpr auto kBackward = Backward;
  static constexpr auto kForwardScratch = ForwardScratch;
  static constexpr auto kBackwardScratch = BackwardScratch;
};

}  // namespace

ImplementationPtr ProductConvolutionImplementation() {
  return ConvolutionImplementation<ProductMaths>::Make(
      "inner product", Supports, [](const OpDesc& query) {
        constexpr double kWeightsPerSecond = 7e9;    // per thread, from memory
        constexpr double kProductsPerSecond = 35e9;  // per thread, at the rate of AVX-512
        const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
        return (static_cast<double>(ConvWeightCount(g)) / kWeightsPerSecond +
                static_cast<double>(query.info.macs) / kProductsPerSecond) /
               query.threads;
      });
}

}  // namespace crema
