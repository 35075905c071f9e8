// Im2col: the patches that a convolution reads, as channels: y[n, (c, k), p] = x[n, c, p * stride -
// pad + k * dilation]. Backward sums the gradients of all copies of a pixel.
#include "math/im2col.h"

#include <memory>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

class Im2colLayer final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& input = context.inputs[0];
    const int axis = Axis(input.shape);
    const ConvWindow w = MakeConvWindow(*this, input.shape, axis);
    LayerInfo info;
    info.outputs = {
        {ConvOutputShape(input.shape, axis, input.shape[axis] * w.KernelSize(), w.axes, w.out),
         input.dtype}};
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& input = args.inputs[0].shape();
    const int axis = Axis(input);
    const ConvWindow w = MakeConvWindow(*this, input, axis);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ForPlanes(args.context, w, input.count(0, axis + 1), [&](int64_t begin, int64_t end) {
        Im2col(w, end - begin, x + begin * w.InSize(), y + begin * w.KernelSize() * w.OutSize());
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& input = args.inputs[0].shape();
    const int axis = Axis(input);
    const ConvWindow w = MakeConvWindow(*this, input, axis);
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ForPlanes(args.context, w, input.count(0, axis + 1), [&](int64_t begin, int64_t end) {
        Col2im(w, end - begin, dy + begin * w.KernelSize() * w.OutSize(), dx + begin * w.InSize());
      });
    });
  }

 private:
  int Axis(const Shape& input) const {
    return LayerAxis(*this, input, param().convolution_param().axis(), "convolution_param.axis");
  }

  // Calls body(begin, end) for ranges of planes. The planes of all images are consecutive in x and
  // in y.
  template <typename Body>
  static void ForPlanes(ExecContext& context, const ConvWindow& w, int64_t planes, Body&& body) {
    constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread
    const int64_t cost = std::max<int64_t>(1, w.KernelSize() * w.OutSize());
    ParallelFor(context.threads(), planes, std::max<int64_t>(1, kGrain / cost),
                [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }
};

}  // namespace

void RegisterIm2col(Registry& registry) {
  LayerType type;
  type.name = "Im2col";
  type.category = "convolution";
  type.summary = "The patches that a convolution would see, as channels.";
  type.formula = "y[n, (c, k), p] = x[n, c, p * stride - pad + k * dilation], 0 in the padding";
  type.input_docs = {"x: N x C x spatial axes, any number of them"};
  type.output_docs = {"y: N x C * kernel elements x the spatial size of a convolution's output"};
  type.differences = {"propagate_down is respected; Caffe computes the gradient always."};
  type.param_fields = {"convolution_param"};
  type.unread_fields = {"convolution_param.num_output",      "convolution_param.bias_term",
                        "convolution_param.group",           "convolution_param.weight_filler",
                        "convolution_param.bias_filler",     "convolution_param.relu",
                        "convolution_param.negative_slope",  "convolution_param.coeff",
                        "convolution_param.fusion_type",     "convolution_param.kernel_depth",
                        "convolution_param.temporal_stride", "convolution_param.temporal_pad"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Im2colLayer>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "convolution_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  type.samples = {
      sample("plain", "kernel_size: 3", {2, 3, 6, 5}),
      sample("pad_stride_dilation", "kernel_size: 3 pad: 2 stride: 2 dilation: 2", {2, 2, 7, 6}),
      sample("two_axes_apart", "kernel_h: 2 kernel_w: 3 pad_h: 0 pad_w: 1", {2, 2, 4, 5}),
      sample("one_spatial_axis", "kernel_size: 3 stride: 2", {2, 2, 9}),
      sample("three_spatial_axes", "kernel_size: 2", {1, 2, 3, 3, 3}),
      sample("axis", "kernel_size: 2 axis: -2", {2, 2, 3, 4}),
      sample("empty_batch", "kernel_size: 2", {0, 2, 3, 3}),
  };
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{1, 2, 5, 5}}, .expect = "kernel_size is missing"},
      {.prototxt = "convolution_param { kernel_size: 9 }",
       .input_shapes = {{1, 2, 5, 5}},
       .expect = "smaller kernel"},
      {.prototxt = "convolution_param { kernel_size: 4294967295 }",
       .input_shapes = {{1, 2, 5, 5}},
       .expect = "larger than any blob"},
      {.prototxt = "convolution_param { kernel_size: 2 dilation: 0 }",
       .input_shapes = {{1, 2, 5, 5}},
       .expect = "dilation must be above 0"},
      {.prototxt = "convolution_param { kernel_size: 2 axis: 7 }",
       .input_shapes = {{1, 2, 5, 5}},
       .expect = "axis 7"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
