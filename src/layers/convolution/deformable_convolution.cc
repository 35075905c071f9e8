// DeformableConvolution (Dai et al.: Deformable Convolutional Networks, 2017): y[n, o, p] = bias[o]
// + sum over c, k of weight[o, c, k] * x[n, c] at p * stride - pad + k * dilation + offset[n, g, k,
// p], where g is the deformable group of channel c. Values between elements are interpolated, and
// are 0 outside. Channels 2 k and 2 k + 1 of the offsets of a group move element k down and to the
// right.
// The samples of an image (sampling/grid_points.h) are its columns; a pointwise convolution of
// these gives the output.
#include "layers/convolution/deformable_convolution.h"

#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/convolution/conv_matmul.h"
#include "layers/sampling/grid_points.h"

namespace crema {
namespace {

constexpr const char* kGroupField = "deformable_convolution_param.deformable_group";

// The functions for convolutions read convolution_param.
LayerParameter WithConvolution(LayerParameter param) {
  ConvolutionParameter* convolution = param.mutable_convolution_param();
  convolution->ParseFromString(param.deformable_convolution_param().SerializeAsString());
  convolution->DiscardUnknownFields();
  return param;
}

// Returns the number of deformable groups for an input of shape x and `offsets` channels of
// offsets.
int64_t DeformGroups(const Layer& layer, const Shape& x, int64_t kernel, int64_t offsets) {
  const DeformableConvolutionParameter& p = layer.param().deformable_convolution_param();
  if (p.has_deformable_group() && p.has_num_deformable_group() &&
      p.deformable_group() != p.num_deformable_group()) {
    FailField(layer, kGroupField,
              "deformable_group and num_deformable_group mean the same; give one");
  }
  const bool given = p.has_deformable_group() || p.has_num_deformable_group();
  const int64_t groups = !given                     ? offsets / (2 * kernel)
                         : p.has_deformable_group() ? int64_t{p.deformable_group()}
                                                    : int64_t{p.num_deformable_group()};
  if (groups < 1 || offsets != 2 * kernel * groups) {
    FailInputs(layer,
               StrCat("the offsets need 2 channels for each of the ", kernel, " filter elements",
                      given ? StrCat(" in ", groups, " deformable groups") : std::string(),
                      ", but they have ", offsets, " channels"));
  }
  if (x[1] % groups != 0) {
    FailField(layer, kGroupField,
              StrCat("the input of shape ", ToString(x), " has ", x[1],
                     " channels, which is not a multiple of ", groups, " deformable groups"));
  }
  return groups;
}

class DeformableConvolution final : public Layer {
 public:
  explicit DeformableConvolution(const LayerParameter& param) : Layer(WithConvolution(param)) {
    ValidateConvParam(*this);
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const DeformableGeometry g(*this, x, context.inputs[1].shape);
    const ConvWindow& w = g.conv.window;
    const ConvolutionParameter& p = param().convolution_param();
    LayerInfo info;
    info.outputs = {
        {ConvOutputShape(x, 1, g.conv.out_channels, w.axes, w.out), context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.parameters.push_back({"weight", ConvFilterShape(g.conv), p.weight_filler()});
    if (p.bias_term()) {
      info.parameters.push_back({"bias", Shape{g.conv.out_channels}, p.bias_filler()});
    }
    info.backward_reads_input = {true, true};
    info.macs = info.outputs[0].shape.count() * g.conv.GroupDepth();
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const DeformableGeometry g(*this, context.inputs[0].shape, context.inputs[1].shape);
    const auto workers = static_cast<size_t>(ParallelWorkers(threads, g.conv.batch, 1));
    return workers * (context.dtype == DType::kF32 ? ScratchBytes<float>(g.ColumnImage())
                                                   : ScratchBytes<double>(g.ColumnImage())) +
           kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const DeformableGeometry g(*this, args.inputs[0].shape(), args.inputs[1].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T *x = args.inputs[0].data<T>(), *offset = args.inputs[1].data<T>();
      const T* bias = args.parameters.size() > 1 ? args.parameters[1].data<T>() : nullptr;
      const int workers = ParallelWorkers(args.context.threads(), g.conv.batch, 1);
      const int threads = workers == 1 ? args.context.threads() : 1;
      const auto piece = static_cast<int64_t>(ScratchBytes<T>(g.ColumnImage()) / sizeof(T));
      T* columns = ScratchCutter(args.scratch).Take<T>(piece * workers);
      ParallelFor(args.context.threads(), g.conv.batch, 1,
                  [&](int64_t begin, int64_t end, int worker) {
                    T* image = columns + worker * piece;
                    for (int64_t n = begin; n < end; ++n) {
                      T* y = args.outputs[0].data<T>() + n * g.conv.OutImage();
                      SamplePoints(threads, g.Points(1, offset + n * g.OffsetImage()),
                                   x + n * g.conv.InImage(), image);
                      ConvProduct<T>(g.products, threads, image, args.parameters[0].data<T>(), y);
                      AddRowBiasRelu<T>(g.conv.out_channels, g.Outputs(), bias, FusedRelu{}, y);
                    }
                  });
    });
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo&,
                         int threads) const override {
    const DeformableGeometry g(*this, context.inputs[0].shape, context.inputs[1].shape);
    const int workers = ParallelWorkers(threads, g.conv.batch, 1);
    return context.dtype == DType::kF32
               ? ConvBackwardWorkers<float>::Bytes(g.products, g.conv.out_channels, g.ColumnImage(),
                                                   workers)
               : ConvBackwardWorkers<double>::Bytes(g.products, g.conv.out_channels,
                                                    g.ColumnImage(), workers);
  }

  void Backward(const BackwardArgs& args) const override {
    const DeformableGeometry g(*this, args.inputs[0].shape(), args.inputs[1].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      // The columns have the place of a masked gradient.
      const ConvBackwardWorkers<T> memory(g.products, g.conv.out_channels, g.ColumnImage(),
                                          ParallelWorkers(args.context.threads(), g.conv.batch, 1),
                                          args.scratch);
      ParallelFor(args.context.threads(), g.conv.batch, 1,
                  [&](int64_t begin, int64_t end, int worker) {
                    for (int64_t n = begin; n < end; ++n) BackwardImage(g, args, n, worker, memory);
                  });
      const auto sums = [&](size_t i) {
        const bool wanted = i < args.parameter_grads.size() && !args.parameter_grads[i].empty();
        return wanted ? args.parameter_grads[i].data<T>() : nullptr;
      };
      memory.AddTo(sums(0), sums(1));
    });
  }

 private:
  template <typename T>
  static void BackwardImage(const DeformableGeometry& g, const BackwardArgs& args, int64_t n,
                            int worker, const ConvBackwardWorkers<T>& memory) {
    const TensorView &dx = args.input_grads[0], &doffset = args.input_grads[1];
    const T* x = args.inputs[0].data<T>() + n * g.conv.InImage();
    const auto points = g.Points(1, args.inputs[1].data<T>() + n * g.OffsetImage());
    const T* dy = args.output_grads[0].data<T>() + n * g.conv.OutImage();
    T* columns = memory.Masked(worker);
    if (args.parameter_grads.size() > 1 && !args.parameter_grads[1].empty()) {
      AddRowSums<T>(g.conv.out_channels, g.Outputs(), dy, memory.BiasGrad(worker));
    }
    if (!args.parameter_grads[0].empty()) {
      SamplePoints(1, points, x, columns);
      ConvWeightGradient<T>(g.products, columns, dy, memory.WeightGrad(worker));
    }
    if (dx.empty() && doffset.empty()) return;
    ConvTransposed<T>(g.products, 1, args.parameters[0].data<T>(), dy, nullptr, columns);
    if (!dx.empty()) SpreadToPlanes(1, points, columns, dx.data<T>() + n * g.conv.InImage());
    if (doffset.empty()) return;
    T* slopes = doffset.data<T>() + n * g.OffsetImage();
    SlopesOfPoints(1, points, x, columns, [&](int64_t at, const double* slope) {
      T* down = slopes + points.OffsetOf(at);
      down[0] = static_cast<T>(slope[1]);
      down[g.Outputs()] = static_cast<T>(slope[0]);
    });
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> x,
                         std::vector<int64_t> offset) {
    return LayerSample{
        .name = std::move(name),
        .prototxt = "deformable_convolution_param { " + fields +
                    " weight_filler { type: \"gaussian\" std: 0.5 }"
                    " bias_filler { type: \"uniform\" min: -1 max: 1 } }",
        // Offsets between whole numbers, where samples have no kink.
        .inputs = {{.shape = std::move(x)}, {.shape = std::move(offset), .low = 0.1, .high = 0.9}}};
  };
  return {
      sample("plain", "num_output: 3 kernel_size: 3", {2, 2, 5, 6}, {2, 18, 3, 4}),
      sample("groups", "num_output: 4 kernel_size: 3 pad: 1 group: 2 deformable_group: 2",
             {2, 4, 4, 5}, {2, 36, 4, 5}),
      sample("dilated",
             "num_output: 2 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 2 "
             "dilation: 2 num_deformable_group: 1",
             {2, 3, 5, 4}, {2, 12, 3, 4}),
      sample("pointwise", "num_output: 3 kernel_size: 1 bias_term: false deformable_group: 2",
             {2, 2, 3, 4}, {2, 4, 3, 4}),
      sample("depthwise", "num_output: 4 kernel_size: 1 group: 4", {2, 4, 3, 3}, {2, 2, 3, 3}),
      sample("one_position", "num_output: 3 kernel_size: 2", {3, 2, 2, 2}, {3, 8, 1, 1}),
      sample("empty_batch", "num_output: 2 kernel_size: 3", {0, 2, 4, 4}, {0, 18, 2, 2}),
      {.name = "far_outside",
       .prototxt = "deformable_convolution_param { num_output: 2 kernel_size: 2 "
                   "weight_filler { type: \"gaussian\" std: 0.5 } }",
       .inputs = {{.shape = {1, 2, 3, 3}}, {.shape = {1, 8, 2, 2}, .low = -1e30, .high = 1e30}}},
  };
}

std::vector<BadSample> BadSamples() {
  const auto bad = [](const std::string& fields, std::vector<int64_t> x,
                      std::vector<int64_t> offset, const char* expect) {
    return BadSample{"deformable_convolution_param { " + fields + " }",
                     {std::move(x), std::move(offset)},
                     expect};
  };
  return {
      bad("kernel_size: 3", {1, 2, 4, 4}, {1, 18, 2, 2}, "num_output is missing"),
      bad("num_output: 2", {1, 2, 4, 4}, {1, 18, 2, 2}, "kernel_size is missing"),
      bad("num_output: 2 kernel_size: 3", {1, 2, 4}, {1, 18, 2}, "N x C x H x W"),
      bad("num_output: 2 kernel_size: 3 axis: 2", {1, 2, 4, 4}, {1, 18, 2, 2}, "axis 1"),
      bad("num_output: 2 kernel_size: 3", {1, 2, 4, 4}, {1, 18, 4, 4}, "as the output"),
      bad("num_output: 2 kernel_size: 3", {1, 2, 4, 4}, {1, 17, 2, 2}, "they have 17 channels"),
      bad("num_output: 2 kernel_size: 3 deformable_group: 2", {1, 2, 4, 4}, {1, 18, 2, 2},
          "in 2 deformable groups"),
      bad("num_output: 2 kernel_size: 3 deformable_group: 0", {1, 2, 4, 4}, {1, 18, 2, 2},
          "in 0 deformable groups"),
      bad("num_output: 2 kernel_size: 3 deformable_group: 2 num_deformable_group: 1", {1, 2, 4, 4},
          {1, 18, 2, 2}, "give one"),
      bad("num_output: 2 kernel_size: 1", {1, 3, 4, 4}, {1, 4, 4, 4}, "not a multiple of 2"),
  };
}

}  // namespace

DeformableGeometry::DeformableGeometry(const Layer& layer, const Shape& x, const Shape& offset) {
  if (x.axes() != 4 || layer.param().convolution_param().axis() != 1) {
    FailInputs(layer, StrCat("x must be N x C x H x W, with axis 1 for the channels, but it is ",
                             ToString(x)));
  }
  conv = MakeConvGeometry(layer, x);
  const ConvWindow& w = conv.window;
  if (offset.axes() != 4 || offset[0] != x[0] || offset[2] != w.out[0] || offset[3] != w.out[1]) {
    FailInputs(layer, StrCat("the offsets must be ", x[0], " x channels x ", w.out[0], " x ",
                             w.out[1], ", as the output, but they are ", ToString(offset)));
  }
  deform_groups = DeformGroups(layer, x, w.KernelSize(), offset[1]);
  products = conv;
  products.in_channels = conv.in_channels * w.KernelSize();
  products.window.in = w.out;
  for (size_t i = 0; i < 2; ++i) {
    products.window.kernel[i] = products.window.stride[i] = products.window.dilation[i] = 1;
    products.window.pad[i] = 0;
  }
}

void RegisterDeformableConvolution(Registry& registry) {
  LayerType type;
  type.name = "DeformableConvolution";
  type.category = "convolution";
  type.summary = "Convolution whose filter elements are moved by learned offsets.";
  type.formula =
      "y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] * x[n, c] at p * stride - pad + k * "
      "dilation + offset[n, g, k, p], bilinear, 0 outside; g is the deformable group of c";
  type.input_docs = {"x: N x C x H x W",
                     "offset: N x 2 G K x the size of the output, for G deformable groups and K "
                     "filter elements: channels 2 k and 2 k + 1 of a group move element k down and "
                     "to the right, in elements of x"};
  type.output_docs = {"y: N x num_output x H' x W', sized as by Convolution"};
  type.parameter_docs = {"weight: num_output x C / group x kernel",
                         "bias: num_output; only with bias_term"};
  type.differences = {
      "A place between the border and one element outside is interpolated with zeros, as in later "
      "versions (torchvision, MMCV); the ports for Caffe take 0 before the first element, and the "
      "last element after it.",
      "deformable_group may be left out; the ports take 4 or 1.", "engine is a hint."};
  type.origin = "Deformable ConvNets";
  type.param_fields = {"deformable_convolution_param"};
  type.traits.multiplies_matrices = true;
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const DeformableConvolution>(p);
  };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
