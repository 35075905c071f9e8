// Deconvolution: the transpose of Convolution, which is the gradient of Convolution with respect to
// its input: y[n, o, p * stride - pad + k * dilation] += weight[c, o, k] * x[n, c, p], plus
// bias[o].
// Sizes are those of the convolution from y to x: forward is the backward pass of that convolution,
// and vice versa.
#include <memory>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/convolution/conv_matmul.h"
#include "layers/convolution/convolution.h"
#include "layers/convolution/deconvolution_implementations.h"

namespace crema {
namespace {

template <typename T>
T* DataOrNull(const TensorView& view) {
  return view.empty() ? nullptr : view.data<T>();
}

class Deconvolution final : public Layer {
 public:
  explicit Deconvolution(const LayerParameter& param) : Layer(param) { ValidateConvParam(*this); }

  LayerInfo Infer(const InferContext& context) const override {
    RequireEqualShapes(*this, context.inputs);
    const Shape& input = context.inputs[0].shape;
    const ConvGeometry g = MakeDeconvGeometry(*this, input);
    const ConvolutionParameter& p = param().convolution_param();
    const auto count = static_cast<int64_t>(context.inputs.size());
    LayerInfo info;
    info.outputs.assign(
        context.inputs.size(),
        {ConvOutputShape(input, g.channel_axis, g.in_channels, g.window.axes, g.window.in),
         context.inputs[0].dtype});
    info.reach = ReachFromAxis(g.channel_axis);
    info.parameters.push_back({"weight", ConvFilterShape(g), p.weight_filler()});
    if (p.bias_term()) info.parameters.push_back({"bias", Shape{g.in_channels}, p.bias_filler()});
    info.backward_reads_input.assign(context.inputs.size(), true);
    info.backward_reads_output.assign(context.inputs.size(), ReluOf(*this, {}).on);
    info.macs = input.count() * (g.in_channels / g.groups) * g.window.KernelSize() * count;
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const ConvGeometry g = MakeDeconvGeometry(*this, context.inputs[0].shape);
    const auto workers = static_cast<size_t>(ParallelWorkers(threads, g.batch, 1));
    return workers * ScratchBytes<double>(ConvColumnCount(g)) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConvGeometry g = MakeDeconvGeometry(*this, args.inputs[0].shape());
    const FusedRelu relu = ReluOf(*this, args.fused);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const int threads = args.context.threads();
      const int workers = ParallelWorkers(threads, g.batch, 1);
      const T* weight = args.parameters[0].data<T>();
      const T* bias = has_bias() ? args.parameters[1].data<T>() : nullptr;
      T* columns = ScratchCutter(args.scratch).Take<T>(ConvColumnCount(g) * workers);
      for (size_t i = 0; i < args.inputs.size(); ++i) {
        const T* x = args.inputs[i].data<T>();
        T* y = args.outputs[i].data<T>();
        ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
          for (int64_t n = begin; n < end; ++n) {
            T* image = y + n * g.InImage();
            ConvTransposed<T>(g, workers == 1 ? threads : 1, weight, x + n * g.OutImage(),
                              columns + worker * ConvColumnCount(g), image);
            AddRowBiasRelu<T>(g.in_channels, g.window.InSize(), bias, relu, image);
          }
        });
      }
    });
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const override {
    const ConvGeometry g = MakeDeconvGeometry(*this, context.inputs[0].shape);
    const int workers = ParallelWorkers(threads, g.batch, 1);
    const int64_t masked = info.backward_reads_output[0] ? g.InImage() : 0;
    return context.dtype == DType::kF32
               ? ConvBackwardWorkers<float>::Bytes(g, g.in_channels, masked, workers)
               : ConvBackwardWorkers<double>::Bytes(g, g.in_channels, masked, workers);
  }

  void Backward(const BackwardArgs& args) const override {
    const ConvGeometry g = MakeDeconvGeometry(*this, args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const int threads = args.context.threads();
      T* dweight = DataOrNull<T>(args.parameter_grads[0]);
      T* dbias = has_bias() ? DataOrNull<T>(args.parameter_grads[1]) : nullptr;
      const ConvBackwardWorkers<T> memory(g, g.in_channels,
                                          ReluOf(*this, args.fused).on ? g.InImage() : 0,
                                          ParallelWorkers(threads, g.batch, 1), args.scratch);
      for (size_t i = 0; i < args.inputs.size(); ++i) {
        ParallelFor(threads, g.batch, 1, [&](int64_t begin, int64_t end, int worker) {
          for (int64_t n = begin; n < end; ++n) {
            BackwardImage<T>(g, args, i, n, memory, worker, dweight != nullptr, dbias != nullptr);
          }
        });
      }
      memory.AddTo(dweight, dbias);
    });
  }

 private:
  bool has_bias() const { return param().convolution_param().bias_term(); }

  template <typename T>
  void BackwardImage(const ConvGeometry& g, const BackwardArgs& args, size_t input, int64_t n,
                     const ConvBackwardWorkers<T>& memory, int worker, bool weight_wanted,
                     bool bias_wanted) const {
    const T* dy = args.output_grads[input].data<T>() + n * g.InImage();
    if (const FusedRelu relu = ReluOf(*this, args.fused); relu.on) {
      MaskByOutput<T>(g.InImage(), relu.slope, args.outputs[input].data<T>() + n * g.InImage(), dy,
                      memory.Masked(worker));
      dy = memory.Masked(worker);
    }
    if (bias_wanted) {
      AddRowSums<T>(g.in_channels, g.window.InSize(), dy, memory.BiasGrad(worker));
    }
    T* dx = DataOrNull<T>(args.input_grads[input]);
    if (!weight_wanted && dx == nullptr) return;
    const T* columns = ConvColumns<T>(g, dy, memory.Columns(worker));
    if (weight_wanted) {
      ConvWeightGradient<T>(g, columns, args.inputs[input].data<T>() + n * g.OutImage(),
                            memory.WeightGrad(worker));
    }
    if (dx != nullptr) {
      ConvProduct<T>(g, 1, columns, args.parameters[0].data<T>(), dx + n * g.OutImage());
    }
  }
};

LayerSample Sample(std::string name, const std::string& fields,
                   std::vector<std::vector<int64_t>> shapes) {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt =
      "convolution_param { " + fields + " weight_filler { type: \"gaussian\" std: 0.5 } }";
  for (std::vector<int64_t>& shape : shapes) sample.inputs.push_back({.shape = std::move(shape)});
  sample.outputs = static_cast<int>(sample.inputs.size());
  return sample;
}

std::vector<LayerSample> Samples() {
  return {
      Sample("upsample", "num_output: 3 kernel_size: 4 stride: 2 pad: 1", {{2, 2, 3, 4}}),
      Sample("plain", "num_output: 4 kernel_size: 3", {{2, 3, 4, 5}}),
      Sample("groups", "num_output: 6 kernel_size: 3 group: 2", {{2, 4, 3, 3}}),
      Sample("bilinear_shape",
             "num_output: 3 kernel_size: 4 stride: 2 pad: 1 group: 3 "
             "bias_term: false",
             {{1, 3, 4, 4}}),
      Sample("dilated", "num_output: 2 kernel_size: 3 dilation: 2 pad: 1", {{2, 2, 4, 5}}),
      Sample("hole", "num_output: 2 kernel_size: 3 hole: 2", {{1, 2, 3, 3}}),
      Sample("pointwise", "num_output: 5 kernel_size: 1", {{2, 3, 3, 4}}),
      Sample("two_axes_apart",
             "num_output: 2 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 pad_h: 1 pad_w: 0",
             {{2, 2, 3, 4}}),
      Sample("two_inputs", "num_output: 2 kernel_size: 2", {{2, 2, 3, 3}, {2, 2, 3, 3}}),
      Sample("no_spatial_axes", "num_output: 3", {{4, 5}}),
      Sample("one_spatial_axis", "num_output: 3 kernel_size: 3 stride: 2", {{2, 2, 6}}),
      Sample("three_spatial_axes", "num_output: 2 kernel_size: 2 stride: 2", {{1, 2, 2, 3, 2}}),
      Sample("channels_last_but_one", "num_output: 2 kernel_size: 3 axis: -2", {{2, 2, 3, 4}}),
      Sample("relu", "num_output: 2 kernel_size: 2 relu: true negative_slope: 0.1", {{2, 2, 3, 3}}),
      Sample("empty_batch", "num_output: 2 kernel_size: 3", {{0, 2, 4, 4}}),
  };
}

}  // namespace

void RegisterDeconvolution(Registry& registry) {
  LayerType type = ConvolutionType();
  type.name = "Deconvolution";
  type.traits = {.fits_16_bits = true, .multiplies_matrices = true};
  type.summary = "Transposed convolution, for learned or fixed (bilinear filler) upsampling.";
  type.formula =
      "y[n, o, p * stride - pad + k * dilation] = bias[o] + sum over c, k of weight[c, o, k] * "
      "x[n, c, p]; size: stride * (in - 1) + dilation * (kernel - 1) + 1 - 2 * pad";
  type.output_docs = {"y: N x num_output x spatial axes, one for each input"};
  type.parameter_docs = {"weight: C x num_output / group x kernel (input channels come first)",
                         "bias: num_output; only with bias_term"};
  type.param_fields = {"convolution_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Deconvolution>(p); };
  type.implementations = {};
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = OneDnnDeconvolutionImplementations();
#endif
  type.implementations.push_back(NativeWithRelu());
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "convolution_param { kernel_size: 3 }",
       .input_shapes = {{1, 2, 5, 5}},
       .expect = "num_output is missing"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 3 group: 2 }",
       .input_shapes = {{1, 3, 5, 5}},
       .expect = "3 channels"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 2 pad: 3 }",
       .input_shapes = {{1, 2, 4, 4}},
       .expect = "less padding"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 2 stride: 4294967295 }",
       .input_shapes = {{1, 2, 4, 4}},
       .expect = "smaller stride"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 2 }",
       .input_shapes = {{1, 2, 0, 4}},
       .expect = "larger input"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 2 hole: 2 dilation: 2 }",
       .input_shapes = {{1, 2, 4, 4}},
       .expect = "another word for dilation"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
