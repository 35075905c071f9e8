// Convolution: y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] * x[n, c, p * stride - pad +
// k * dilation], for any number of spatial axes. With groups, output channels of group g read only
// input channels of group g. The kernel is not flipped. Several inputs share the weights.
// A fused ReLU is applied to the output; backward then takes the mask from the output.
// This file is the native implementation: each image as columns (Im2col), one matrix product per
// group.
#include "layers/convolution/convolution.h"

#include <algorithm>
#include <vector>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/convolution/conv_matmul.h"

namespace crema {
namespace {

template <typename T>
T* DataOrNull(const TensorView& view) {
  return view.empty() ? nullptr : view.data<T>();
}

}  // namespace

Convolution::Convolution(const LayerParameter& param) : Layer(param) { ValidateConvParam(*this); }

LayerInfo Convolution::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  RequireEqualShapes(*this, context.inputs);
  const ConvGeometry g = MakeConvGeometry(*this, input);
  const Shape output =
      ConvOutputShape(input, g.channel_axis, g.out_channels, g.window.axes, g.window.out);
  const ConvolutionParameter& p = param().convolution_param();
  LayerInfo info;
  info.outputs.assign(context.inputs.size(), BlobSpec{output, context.inputs[0].dtype});
  info.reach = ReachFromAxis(g.channel_axis);
  info.parameters.push_back({"weight", ConvFilterShape(g), p.weight_filler()});
  if (has_bias()) info.parameters.push_back({"bias", Shape{g.out_channels}, p.bias_filler()});
  info.backward_reads_input.assign(context.inputs.size(), true);
  info.backward_reads_output.assign(context.inputs.size(), ReluOf(*this, {}).on);
  info.macs = output.count() * g.GroupDepth() * static_cast<int64_t>(context.inputs.size());
  return info;
}

size_t Convolution::ForwardScratch(const InferContext& context, const LayerInfo&,
                                   int threads) const {
  const ConvGeometry g = MakeConvGeometry(*this, context.inputs[0].shape);
  const int workers = ParallelWorkers(threads, g.batch, 1);
  return static_cast<size_t>(workers) * (context.dtype == DType::kF32
                                             ? ScratchBytes<float>(ConvColumnCount(g))
                                             : ScratchBytes<double>(ConvColumnCount(g))) +
         kScratchSlack;
}

void Convolution::Forward(const ForwardArgs& args) const {
  const ConvGeometry g = MakeConvGeometry(*this, args.inputs[0].shape());
  const FusedRelu relu = ReluOf(*this, args.fused);
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const int threads = args.context.threads();
    const T* weight = args.parameters[0].data<T>();
    const T* bias = has_bias() ? args.parameters[1].data<T>() : nullptr;
    ScratchCutter cutter(args.scratch);
    const int workers = ParallelWorkers(threads, g.batch, 1);
    const int64_t piece = static_cast<int64_t>(ScratchBytes<T>(ConvColumnCount(g)) / sizeof(T));
    T* columns = cutter.Take<T>(piece * workers);
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const T* x = args.inputs[i].data<T>();
      T* y = args.outputs[i].data<T>();
      ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t n = begin; n < end; ++n) {
          T* image = y + n * g.OutImage();
          ConvProduct<T>(g, workers == 1 ? threads : 1,
                         ConvColumns<T>(g, x + n * g.InImage(), columns + worker * piece), weight,
                         image);
          AddRowBiasRelu<T>(g.out_channels, g.window.OutSize(), bias, relu, image);
        }
      });
    }
  });
}

size_t Convolution::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                    int threads) const {
  const ConvGeometry g = MakeConvGeometry(*this, context.inputs[0].shape);
  const int workers = ParallelWorkers(threads, g.batch, 1);
  const int64_t masked = info.backward_reads_output[0] ? g.OutImage() : 0;
  return context.dtype == DType::kF32
             ? ConvBackwardWorkers<float>::Bytes(g, g.out_channels, masked, workers)
             : ConvBackwardWorkers<double>::Bytes(g, g.out_channels, masked, workers);
}

void Convolution::Backward(const BackwardArgs& args) const {
  const ConvGeometry g = MakeConvGeometry(*this, args.inputs[0].shape());
  const FusedRelu relu = ReluOf(*this, args.fused);
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const int threads = args.context.threads();
    const T* weight = args.parameters[0].data<T>();
    T* dweight = DataOrNull<T>(args.parameter_grads[0]);
    T* dbias = has_bias() ? DataOrNull<T>(args.parameter_grads[1]) : nullptr;
    const ConvBackwardWorkers<T> memory(g, g.out_channels, relu.on ? g.OutImage() : 0,
                                        ParallelWorkers(threads, g.batch, 1), args.scratch);
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const T* x = args.inputs[i].data<T>();
      const T* y = relu.on ? args.outputs[i].data<T>() : nullptr;
      const T* dys = args.output_grads[i].data<T>();
      T* dx = DataOrNull<T>(args.input_grads[i]);
      ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
        T* columns = memory.Columns(worker);
        for (int64_t n = begin; n < end; ++n) {
          const T* dy = dys + n * g.OutImage();
          if (relu.on) {
            MaskByOutput<T>(g.OutImage(), relu.slope, y + n * g.OutImage(), dy,
                            memory.Masked(worker));
            dy = memory.Masked(worker);
          }
          if (dbias != nullptr) {
            AddRowSums<T>(g.out_channels, g.window.OutSize(), dy, memory.BiasGrad(worker));
          }
          if (dweight != nullptr) {
            ConvWeightGradient<T>(g, ConvColumns<T>(g, x + n * g.InImage(), columns), dy,
                                  memory.WeightGrad(worker));
          }
          if (dx != nullptr) ConvTransposed<T>(g, 1, weight, dy, columns, dx + n * g.InImage());
        }
      });
    }
    memory.AddTo(dweight, dbias);
  });
}

}  // namespace crema
