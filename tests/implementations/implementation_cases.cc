#include "implementations/implementation_cases.h"

#include <algorithm>
#include <vector>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "implementations/sequence_cases.h"

namespace crema::test {

int64_t Draw::Channels() {
  const int64_t block = std::max<int64_t>(16, ChannelBlock());
  return Chance(67) ? block * Int(1, 3) : Int(1, 37);
}

namespace {

using Dims = std::vector<int64_t>;

Dims DrawImage(Draw& draw) {
  return {draw.Batch(), draw.Channels(), draw.Int(1, 9), draw.Int(1, 9)};
}

ImplementationCase CaseOf(std::string prototxt, Dims shape) {
  ImplementationCase result;
  result.sample.prototxt = std::move(prototxt);
  result.sample.inputs = {{.shape = std::move(shape)}};
  return result;
}

// Filters, and the sizes of the blob that they slide over.
struct Filters {
  int64_t in = 1, out = 1, group = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  int64_t dilation = 1;
  bool bias = true;

  int64_t ReachH() const { return dilation * (kernel_h - 1) + 1; }
  int64_t ReachW() const { return dilation * (kernel_w - 1) + 1; }
  std::string Text() const {
    return StrCat("convolution_param { num_output: ", out, " group: ", group,
                  " kernel_h: ", kernel_h, " kernel_w: ", kernel_w, " stride_h: ", stride_h,
                  " stride_w: ", stride_w, " pad_h: ", pad_h, " pad_w: ", pad_w,
                  " dilation: ", dilation, " bias_term: ", bias,
                  " weight_filler { type: 'gaussian' } bias_filler { type: 'gaussian' } ");
  }
};

Filters DrawFilters(Draw& draw) {
  Filters f;
  f.in = draw.Channels();
  f.out = draw.Channels();
  const int64_t kind = draw.Int(1, 100);
  if (kind <= 20) {
    f.group = f.in;  // depthwise
    f.out = f.in;
  } else if (kind <= 40) {
    f.group = draw.Int(2, 3);
    f.in *= f.group;
    f.out *= f.group;
  } else if (kind <= 60) {
    f.in = draw.Int(1, 4);  // a first layer
  }
  f.kernel_h = draw.Chance(40) ? 3 : draw.Int(1, 5);
  f.kernel_w = draw.Chance(75) ? f.kernel_h : draw.Int(1, 7);
  f.stride_h = draw.Chance(30) ? draw.Int(2, 3) : 1;
  f.stride_w = draw.Chance(80) ? f.stride_h : draw.Int(1, 3);
  f.pad_h = draw.Chance(60) ? (f.kernel_h - 1) / 2 : draw.Int(0, 3);
  f.pad_w = draw.Chance(60) ? (f.kernel_w - 1) / 2 : draw.Int(0, 3);
  f.dilation = draw.Chance(20) ? draw.Int(2, 3) : 1;
  f.bias = draw.Chance(75);
  return f;
}

ImplementationCase ConvolutionOf(const Filters& f, const Dims& x, bool relu) {
  ImplementationCase result =
      CaseOf(StrCat(f.Text(), "}", relu ? " fused_relu_param { negative_slope: 0.5 }" : ""), x);
  const int64_t window = f.kernel_h * f.kernel_w;
  result.forward_terms = f.in / f.group * window;
  result.input_terms = f.out / f.group * window;
  result.parameter_terms = x[0] * x[2] * x[3];
  result.relu_after = relu;
  return result;
}

ImplementationCase Convolution(const LayerType&, Draw& draw) {
  if (draw.Chance(8)) {  // as large as Winograd's algorithm needs it to pay
    const int64_t block = std::max<int64_t>(16, ChannelBlock());
    const Filters f{.in = block * draw.Int(3, 4),
                    .out = block * draw.Int(3, 4),
                    .kernel_h = 3,
                    .kernel_w = 3,
                    .pad_h = draw.Int(0, 1),
                    .pad_w = draw.Int(0, 1),
                    .bias = draw.Chance(75)};
    return ConvolutionOf(f, {1, f.in, draw.Int(18, 25), draw.Int(18, 25)}, draw.Chance(25));
  }
  const Filters f = DrawFilters(draw);
  const Dims x{draw.Batch(), f.in, f.ReachH() + draw.Int(0, 9), f.ReachW() + draw.Int(0, 9)};
  return ConvolutionOf(f, x, draw.Chance(25));
}

ImplementationCase Depthwise(const LayerType&, Draw& draw) {
  Filters f = DrawFilters(draw);
  f.in = draw.Chance(15) ? 1 : draw.Channels();
  f.out = f.in;
  f.group = f.in;
  const Dims x{draw.Batch(), f.in, f.ReachH() + draw.Int(0, 9), f.ReachW() + draw.Int(0, 9)};
  return ConvolutionOf(f, x, draw.Chance(25));
}

ImplementationCase Deconvolution(const LayerType&, Draw& draw) {
  Filters f = DrawFilters(draw);
  const Dims x{draw.Batch(), f.in, draw.Int(1, 6), draw.Int(1, 6)};
  // Something must be left of the output.
  f.pad_h = std::min(f.pad_h, ((x[2] - 1) * f.stride_h + f.ReachH() - 1) / 2);
  f.pad_w = std::min(f.pad_w, ((x[3] - 1) * f.stride_w + f.ReachW() - 1) / 2);
  const bool relu = draw.Chance(25);
  ImplementationCase result =
      CaseOf(StrCat(f.Text(), relu ? "relu: true negative_slope: 0.5 " : "", "}"), x);
  const int64_t window = f.kernel_h * f.kernel_w;
  result.forward_terms = f.in / f.group * window;
  result.input_terms = f.out / f.group * window;
  // Those of the bias: one an output pixel.
  result.parameter_terms =
      x[0] * (x[2] * f.stride_h + f.ReachH()) * (x[3] * f.stride_w + f.ReachW());
  result.relu_after = relu;
  return result;
}

ImplementationCase InnerProduct(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  const int64_t axis = draw.Chance(80) ? 1 : draw.Int(0, 3);
  const bool relu = draw.Chance(25);
  int64_t rows = 1, columns = 1;
  for (size_t i = 0; i < x.size(); ++i) (static_cast<int64_t>(i) < axis ? rows : columns) *= x[i];
  // Some implementations are for many weights only.
  const int64_t many = (int64_t{1} << 16) / std::max<int64_t>(columns, 1) + 1;
  const int64_t outputs = draw.Chance(25) && many < 1000 ? many : draw.Int(1, 70);
  ImplementationCase result =
      CaseOf(StrCat("inner_product_param { num_output: ", outputs, " axis: ", axis,
                    " bias_term: ", draw.Chance(75), " transpose: ", draw.Chance(25),
                    " weight_filler { type: 'gaussian' } bias_filler { type: 'gaussian' } }",
                    relu ? " fused_relu_param { negative_slope: 0.5 }" : ""),
             x);
  result.forward_terms = columns;
  result.input_terms = outputs;
  result.parameter_terms = rows;
  result.relu_after = relu;
  return result;
}

ImplementationCase Pooling(const LayerType&, Draw& draw) {
  const bool average = draw.Chance(50);
  const std::string pool = StrCat("pooling_param { pool: ", average ? "AVE" : "MAX",
                                  draw.Chance(25) ? " round_mode: FLOOR" : "",
                                  average && draw.Chance(50) ? " avg_include_pad: false" : "");
  if (draw.Chance(10)) {
    ImplementationCase global = CaseOf(pool + " global_pooling: true }", DrawImage(draw));
    global.sample.inputs[0].distinct = !average;
    global.forward_terms = 81;
    return global;
  }
  const int64_t kernel_h = draw.Int(1, 5), kernel_w = draw.Chance(70) ? kernel_h : draw.Int(1, 5);
  // A stride above the kernel could give an empty last window, which AVE refuses.
  const int64_t stride_h = draw.Int(1, std::min<int64_t>(3, kernel_h));
  const int64_t stride_w = draw.Int(1, std::min<int64_t>(3, kernel_w));
  Dims x = DrawImage(draw);
  x[2] += kernel_h;
  x[3] += kernel_w;
  ImplementationCase result =
      CaseOf(StrCat(pool, " kernel_h: ", kernel_h, " kernel_w: ", kernel_w, " stride_h: ", stride_h,
                    " stride_w: ", stride_w, " pad_h: ", draw.Int(0, kernel_h - 1) / 2,
                    " pad_w: ", draw.Int(0, kernel_w - 1) / 2, " }"),
             x);
  result.sample.inputs[0].distinct = !average;
  result.forward_terms = kernel_h * kernel_w;
  result.input_terms = kernel_h * kernel_w;
  return result;
}

ImplementationCase Lrn(const LayerType&, Draw& draw) {
  const bool usual = draw.Chance(30);  // with AVX2 oneDNN has no others
  const int64_t size = usual ? 5 : 2 * draw.Int(0, 4) + 1;
  ImplementationCase result =
      CaseOf(StrCat("lrn_param { local_size: ", size, " alpha: ", draw.Pick({"1e-4", "0.1", "1"}),
                    " beta: ", usual ? "0.75" : draw.Pick({"0.75", "0.5", "1", "0.6"}),
                    " k: ", draw.Pick({"1", "2"}), " }"),
             DrawImage(draw));
  result.forward_terms = size;
  result.input_terms = size;
  result.amplification = 2;  // of a power
  return result;
}

// The implementations sum in f64; with an eps this large rounding errors do not grow.
ImplementationCase Norm(Draw& draw, const std::string& fields) {
  const Dims x = DrawImage(draw);
  ImplementationCase result =
      CaseOf(StrCat(fields, " eps: ", draw.Pick({"0.01", "0.1", "1"}), " }"), x);
  result.sample.phase = draw.Chance(30) ? TEST : TRAIN;
  result.forward_terms = x[0] * x[2] * x[3];
  result.input_terms = result.forward_terms;
  result.parameter_terms = result.forward_terms;
  return result;
}

ImplementationCase BatchNorm(const LayerType&, Draw& draw) {
  ImplementationCase result =
      Norm(draw, StrCat("batch_norm_param {", draw.Chance(40) ? " scale_bias: true" : "",
                        draw.Chance(20) ? " use_global_stats: true" : ""));
  // Moments are taken of differences from one value of the channel, which are rounded and larger
  // than those from the mean.
  result.amplification = 2;
  return result;
}

ImplementationCase Bn(const LayerType&, Draw& draw) {
  return Norm(draw, StrCat("bn_param {", draw.Chance(20) ? " frozen: true" : ""));
}

ImplementationCase Scale(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  ImplementationCase result = CaseOf(
      StrCat(
          "scale_param { filler { type: 'gaussian' } bias_filler { type: 'gaussian' } bias_term: ",
          draw.Chance(50), draw.Chance(15) ? " axis: 2" : "", " }"),
      x);
  result.parameter_terms = result.sample.inputs[0].shape[0] * x[1] * x[2] * x[3];
  return result;
}

ImplementationCase Bias(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  ImplementationCase result = CaseOf(
      StrCat("bias_param { filler { type: 'gaussian' }", draw.Chance(15) ? " axis: 2" : "", " }"),
      x);
  result.parameter_terms = x[0] * x[1] * x[2] * x[3];
  return result;
}

ImplementationCase PRelu(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  const bool shared = draw.Chance(20);
  ImplementationCase result = CaseOf(StrCat("prelu_param { channel_shared: ", shared,
                                            " filler { type: 'uniform' min: -0.5 max: 0.9 } }"),
                                     x);
  result.parameter_terms = x[0] * x[2] * x[3] * (shared ? x[1] : 1);
  return result;
}

ImplementationCase Reorder(const LayerType&, Draw& draw) { return CaseOf("", DrawImage(draw)); }

// The parameters of some sample of the type on images of any size: for elementwise layers.
ImplementationCase OfSamples(const LayerType& type, Draw& draw) {
  const int64_t last = static_cast<int64_t>(type.samples.size()) - 1;
  ImplementationCase result{.sample = type.samples[static_cast<size_t>(draw.Int(0, last))]};
  const Dims shape = DrawImage(draw);
  for (SampleInput& input : result.sample.inputs) input.shape = shape;
  return result;
}

// Rounding of what exp and its like are taken of.
ImplementationCase OfExponentials(const LayerType& type, Draw& draw) {
  ImplementationCase result = OfSamples(type, draw);
  result.amplification = 3;
  return result;
}

// One operand is broadcast at times.
ImplementationCase Broadcast(const LayerType& type, Draw& draw) {
  ImplementationCase result = OfExponentials(type, draw);
  std::vector<SampleInput>& inputs = result.sample.inputs;
  if (inputs.size() < 2 || draw.Chance(40)) return result;
  const auto last = static_cast<int64_t>(inputs.size()) - 1;
  Dims& shape = inputs[static_cast<size_t>(draw.Int(0, last))].shape;
  for (int64_t& size : shape) {
    if (draw.Chance(50)) continue;
    result.input_terms *= size;
    size = 1;
  }
  return result;
}

// Contiguous classes in most cases, and so many that every implementation accepts them.
ImplementationCase Softmax(const LayerType&, Draw& draw) {
  const int64_t classes = draw.Int(1, 700);
  const int64_t apart = draw.Chance(20) ? draw.Int(2, 5) : 1;
  ImplementationCase result = CaseOf("", {draw.Chance(20) ? 1 : draw.Int(2, 40), classes, apart});
  result.sample.inputs[0].low = -8;
  result.sample.inputs[0].high = 8;
  // All sums are of terms that come to about 1 together. exp is of differences up to 16, whose
  // rounding is the error of what it gives, relative to it.
  result.amplification = 8;
  return result;
}

ImplementationCase Eltwise(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  const int64_t inputs = draw.Int(2, 4);
  const std::string operation = draw.Pick({"SUM", "PROD", "MAX"});
  std::string coefficients;
  for (int64_t i = 0; operation == "SUM" && i < inputs; ++i) {
    coefficients += StrCat(" coeff: ", draw.Pick({"1", "-1", "0.3"}));
  }
  ImplementationCase result =
      CaseOf(StrCat("eltwise_param { operation: ", operation, coefficients, " }"), x);
  result.sample.inputs.assign(static_cast<size_t>(inputs), {.shape = x});
  return result;
}

ImplementationCase Concat(const LayerType&, Draw& draw) {
  const Dims x = DrawImage(draw);
  const bool batches = draw.Chance(25);
  ImplementationCase result = CaseOf(StrCat("concat_param { axis: ", batches ? 0 : 1, " }"), x);
  for (int64_t more = draw.Int(1, 3); more > 0; --more) {
    Dims other = x;
    (batches ? other[0] : other[1]) = batches ? draw.Batch() : draw.Channels();
    result.sample.inputs.push_back({.shape = std::move(other)});
  }
  return result;
}

ImplementationCase Slice(const LayerType&, Draw& draw) {
  Dims x = DrawImage(draw);
  const int64_t parts = draw.Int(2, 3);
  const int64_t part = draw.Channels();
  x[1] = part * parts;
  ImplementationCase result = CaseOf("slice_param { axis: 1 }", x);
  result.sample.outputs = static_cast<int>(parts);
  return result;
}

}  // namespace

const std::map<std::string, Generator, std::less<>>& Generators() {
  static const std::map<std::string, Generator, std::less<>> generators{
      {"Convolution", Convolution},
      {"Deconvolution", Deconvolution},
      {"InnerProduct", InnerProduct},
      {"Pooling", Pooling},
      {"LRN", Lrn},
      {"BatchNorm", BatchNorm},
      {"BN", Bn},
      {"Scale", Scale},
      {"Bias", Bias},
      {"PReLU", PRelu},
      {"Reorder", Reorder},
      {"Softmax", Softmax},
      {"Eltwise", Eltwise},
      {"Concat", Concat},
      {"Slice", Slice},
      {"ConvolutionDepthwise", Depthwise},
      {"Attention", AttentionCase},
      {"MatMul", MatMulCase},
      {"RNN", RecurrentCase},
      {"LSTM", RecurrentCase},
      {"GRU", RecurrentCase},
      {"AbsVal", OfSamples},
      {"BNLL", OfExponentials},
      {"Binary", Broadcast},
      {"Clip", OfSamples},
      {"Dropout", OfSamples},
      {"ELU", OfExponentials},
      {"Exp", OfExponentials},
      {"GELU", OfExponentials},
      {"HardSigmoid", OfSamples},
      {"HardSwish", OfSamples},
      {"Log", OfExponentials},
      {"Mish", OfExponentials},
      {"ReLU", OfSamples},
      {"ReLU6", OfSamples},
      {"SiLU", OfExponentials},
      {"Sigmoid", OfExponentials},
      {"Swish", OfExponentials},
      {"TanH", OfExponentials},
      {"Unary", OfExponentials},
      {"Where", Broadcast},
  };
  return generators;
}

}  // namespace crema::test
