// Convolution: y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] * x[n, c, p * stride - pad +
// k * dilation], for any number of spatial axes; with groups, output channels of group g see input
// channels of group g only. The kernel is not flipped. Several inputs share the weights.
// With fused_relu_param the output is ReLU'd; backward then takes the mask from the output.
// This file is the plain implementation: each image as columns (Im2col), one matrix product a
// group.
#include "layers/convolution/convolution.h"

#include <algorithm>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "math/gemm.h"
#include "math/im2col.h"
#include "math/scratch.h"

namespace crema {
namespace {

// Elements of one image as columns.
int64_t ColumnCount(const ConvGeometry& g) {
  return g.window.IsPointwise() ? 0 : g.in_channels * g.window.KernelSize() * g.window.OutSize();
}

// The image as columns; the image itself where that is the same.
template <typename T>
const T* Columns(const ConvGeometry& g, const T* image, T* columns) {
  if (g.window.IsPointwise()) return image;
  Im2col(g.window, g.in_channels, image, columns);
  return columns;
}

template <typename T>
void ForwardImage(const ConvGeometry& g, int threads, const T* columns, const T* weight, T* y) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(threads, false, false, m, n, k, T(1), weight + group * m * k, k,
            columns + group * k * n, n, T(0), y + group * m * n, n);
  }
}

// dx = the sum over the columns of weight^T dy.
template <typename T>
void DataGradient(const ConvGeometry& g, const T* weight, const T* dy, T* columns, T* dx) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  const bool pointwise = g.window.IsPointwise();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(1, true, false, k, n, m, T(1), weight + group * m * k, k, dy + group * m * n, n, T(0),
            (pointwise ? dx : columns) + group * k * n, n);
  }
  if (!pointwise) Col2im(g.window, g.in_channels, columns, dx);
}

// dweight += dy columns^T
template <typename T>
void WeightGradient(const ConvGeometry& g, const T* columns, const T* dy, T* dweight) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(1, false, true, m, k, n, T(1), dy + group * m * n, n, columns + group * k * n, n, T(1),
            dweight + group * m * k, k);
  }
}

int64_t WeightCount(const ConvGeometry& g) { return g.out_channels * g.GroupDepth(); }

// Memory of the workers of a backward pass: partial sums, so that they need not wait for each
// other.
template <typename T>
class BackwardWorkers {
 public:
  BackwardWorkers(const ConvGeometry& g, bool relu, int workers, std::span<std::byte> scratch)
      : geometry_(g), workers_(workers), masked_(relu ? g.OutImage() : 0) {
    base_ = ScratchCutter(scratch).Take<T>(Piece() * workers);
    for (int i = 0; i < workers; ++i) {
      std::fill_n(WeightGrad(i), WeightCount(g) + g.out_channels, T(0));
    }
  }
  static size_t Bytes(const ConvGeometry& g, bool relu, int workers) {
    return ScratchBytes<T>(BackwardWorkers(g, relu).Piece() * workers) + kScratchSlack;
  }

  T* WeightGrad(int worker) const { return base_ + worker * Piece(); }
  T* BiasGrad(int worker) const { return WeightGrad(worker) + WeightCount(geometry_); }
  T* Masked(int worker) const { return BiasGrad(worker) + geometry_.out_channels; }
  T* Columns(int worker) const { return Masked(worker) + masked_; }

  // In the order of the workers: the same bits for the same number of threads. Null: not wanted.
  void AddTo(T* dweight, T* dbias) const {
    for (int i = 0; i < workers_; ++i) {
      if (dweight != nullptr) AddColumnSums<T>(1, WeightCount(geometry_), WeightGrad(i), dweight);
      if (dbias != nullptr) AddColumnSums<T>(1, geometry_.out_channels, BiasGrad(i), dbias);
    }
  }

 private:
  BackwardWorkers(const ConvGeometry& g, bool relu)
      : geometry_(g), masked_(relu ? g.OutImage() : 0) {}
  int64_t Piece() const {
    return WeightCount(geometry_) + geometry_.out_channels + masked_ + ColumnCount(geometry_);
  }

  const ConvGeometry& geometry_;
  int workers_ = 0;
  int64_t masked_;
  T* base_ = nullptr;
};

template <typename T>
T* DataOrNull(const TensorView& view) {
  return view.empty() ? nullptr : view.data<T>();
}

}  // namespace

Convolution::Convolution(const LayerParameter& param) : Layer(param) { ValidateConvParam(*this); }

LayerInfo Convolution::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  for (const BlobSpec& other : context.inputs) {
    if (other.shape != input) {
      FailInputs(*this, StrCat("all inputs must have the same shape, but two are ", ToString(input),
                               " and ", ToString(other.shape)));
    }
  }
  const ConvGeometry g = MakeConvGeometry(*this, input);
  std::vector<int64_t> dims(input.dims().begin(), input.dims().begin() + g.channel_axis);
  dims.push_back(g.out_channels);
  dims.insert(dims.end(), g.window.out.begin(), g.window.out.begin() + g.window.axes);
  const Shape output{std::span<const int64_t>(dims)};
  std::vector<int64_t> filter{g.out_channels, g.in_channels / g.groups};
  filter.insert(filter.end(), g.window.kernel.begin(), g.window.kernel.begin() + g.window.axes);

  const ConvolutionParameter& p = param().convolution_param();
  LayerInfo info;
  info.outputs.assign(context.inputs.size(), BlobSpec{output, context.inputs[0].dtype});
  info.learned.push_back({"weight", Shape(std::span<const int64_t>(filter)), p.weight_filler()});
  if (has_bias()) info.learned.push_back({"bias", Shape{g.out_channels}, p.bias_filler()});
  info.backward_reads_input.assign(context.inputs.size(), true);
  info.backward_reads_output.assign(context.inputs.size(), relu().on);
  info.macs = output.count() * g.GroupDepth() * static_cast<int64_t>(context.inputs.size());
  return info;
}

size_t Convolution::ForwardScratch(const InferContext& context, const LayerInfo&,
                                   int threads) const {
  const ConvGeometry g = MakeConvGeometry(*this, context.inputs[0].shape);
  const int workers = ParallelWorkers(threads, g.batch, 1);
  return static_cast<size_t>(workers) * (context.dtype == DType::kF32
                                             ? ScratchBytes<float>(ColumnCount(g))
                                             : ScratchBytes<double>(ColumnCount(g))) +
         kScratchSlack;
}

void Convolution::Forward(const ForwardArgs& args) const {
  const ConvGeometry g = MakeConvGeometry(*this, args.inputs[0].shape());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const int threads = args.context.threads();
    const T* weight = args.learned[0].data<T>();
    const T* bias = has_bias() ? args.learned[1].data<T>() : nullptr;
    ScratchCutter cutter(args.scratch);
    const int workers = ParallelWorkers(threads, g.batch, 1);
    const int64_t piece = static_cast<int64_t>(ScratchBytes<T>(ColumnCount(g)) / sizeof(T));
    T* columns = cutter.Take<T>(piece * workers);
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const T* x = args.inputs[i].data<T>();
      T* y = args.outputs[i].data<T>();
      ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t n = begin; n < end; ++n) {
          T* image = y + n * g.OutImage();
          ForwardImage<T>(g, workers == 1 ? threads : 1,
                          Columns<T>(g, x + n * g.InImage(), columns + worker * piece), weight,
                          image);
          AddRowBiasRelu<T>(g.out_channels, g.window.OutSize(), bias, relu(), image);
        }
      });
    }
  });
}

size_t Convolution::BackwardScratch(const InferContext& context, const LayerInfo&,
                                    int threads) const {
  const ConvGeometry g = MakeConvGeometry(*this, context.inputs[0].shape);
  const int workers = ParallelWorkers(threads, g.batch, 1);
  return context.dtype == DType::kF32 ? BackwardWorkers<float>::Bytes(g, relu().on, workers)
                                      : BackwardWorkers<double>::Bytes(g, relu().on, workers);
}

void Convolution::Backward(const BackwardArgs& args) const {
  const ConvGeometry g = MakeConvGeometry(*this, args.inputs[0].shape());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const int threads = args.context.threads();
    const T* weight = args.learned[0].data<T>();
    T* dweight = DataOrNull<T>(args.learned_grads[0]);
    T* dbias = has_bias() ? DataOrNull<T>(args.learned_grads[1]) : nullptr;
    const BackwardWorkers<T> memory(g, relu().on, ParallelWorkers(threads, g.batch, 1),
                                    args.scratch);
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const T* x = args.inputs[i].data<T>();
      const T* y = relu().on ? args.outputs[i].data<T>() : nullptr;
      const T* dys = args.output_grads[i].data<T>();
      T* dx = DataOrNull<T>(args.input_grads[i]);
      ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
        T* columns = memory.Columns(worker);
        for (int64_t n = begin; n < end; ++n) {
          const T* dy = dys + n * g.OutImage();
          if (relu().on) {
            MaskByOutput<T>(g.OutImage(), relu().slope, y + n * g.OutImage(), dy,
                            memory.Masked(worker));
            dy = memory.Masked(worker);
          }
          if (dbias != nullptr) {
            AddRowSums<T>(g.out_channels, g.window.OutSize(), dy, memory.BiasGrad(worker));
          }
          if (dweight != nullptr) {
            WeightGradient<T>(g, Columns<T>(g, x + n * g.InImage(), columns), dy,
                              memory.WeightGrad(worker));
          }
          if (dx != nullptr) DataGradient<T>(g, weight, dy, columns, dx + n * g.InImage());
        }
      });
    }
    memory.AddTo(dweight, dbias);
  });
}

}  // namespace crema
