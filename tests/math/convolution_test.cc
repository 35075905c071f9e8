// Implementations of Convolution against direct loops. On random shapes the native one only, which
// is what tests/implementations compares the others with.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "support/layer_run.h"

namespace crema::test {
namespace {

const LayerType& ConvolutionType() {
  static const Registry registry = BuiltinRegistry();
  return *registry.Find("Convolution");
}

// One convolution with two spatial axes.
struct DirectConv {
  int64_t batch, channels, height, width;
  int64_t outputs, group;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation;
  bool bias, relu;

  int64_t OutH() const { return Out(height, kernel_h, stride_h, pad_h); }
  int64_t OutW() const { return Out(width, kernel_w, stride_w, pad_w); }
  int64_t Out(int64_t in, int64_t kernel, int64_t stride, int64_t pad) const {
    return (in + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
  }
};

LayerSample SampleOf(const DirectConv& c) {
  LayerSample sample;
  sample.name = StrCat("num_output: ", c.outputs, " group: ", c.group, " kernel_h: ", c.kernel_h,
                       " kernel_w: ", c.kernel_w, " stride_h: ", c.stride_h,
                       " stride_w: ", c.stride_w, " pad_h: ", c.pad_h, " pad_w: ", c.pad_w,
                       " dilation: ", c.dilation, " bias_term: ", c.bias);
  sample.prototxt = StrCat("convolution_param { ", sample.name,
                           " weight_filler { type: 'gaussian' } bias_filler { type: 'gaussian' } }",
                           c.relu ? " fused_relu_param { negative_slope: 0.5 }" : "");
  sample.inputs = {{.shape = {c.batch, c.channels, c.height, c.width}}};
  return sample;
}

DirectConv DrawConv(uint64_t number) {
  const RandomStream stream(5, number);
  uint64_t next = 0;
  const auto draw = [&](int64_t low, int64_t high) {
    return low + stream.Below(next++, static_cast<uint32_t>(high - low + 1));
  };
  DirectConv c{};
  c.batch = draw(0, 2) == 0 ? 1 : draw(1, 7);
  c.group = draw(0, 3) == 0 ? draw(2, 4) : 1;
  c.channels = c.group * draw(1, draw(0, 4) == 0 ? 24 : 5);
  c.outputs = c.group * draw(1, draw(0, 4) == 0 ? 40 : 9);
  c.dilation = draw(0, 3) == 0 ? draw(2, 3) : 1;
  c.kernel_h = draw(1, 5);
  c.kernel_w = draw(0, 3) == 0 ? draw(1, 7) : c.kernel_h;
  c.stride_h = draw(0, 2) == 0 ? draw(2, 3) : 1;
  c.stride_w = draw(0, 4) == 0 ? draw(1, 3) : c.stride_h;
  c.pad_h = draw(0, 1) * draw(0, 3);
  c.pad_w = draw(0, 3) == 0 ? draw(0, 3) : c.pad_h;
  c.height = c.dilation * (c.kernel_h - 1) + 1 + draw(0, draw(0, 5) == 0 ? 30 : 9);
  c.width = c.dilation * (c.kernel_w - 1) + 1 + draw(0, draw(0, 5) == 0 ? 40 : 9);
  c.bias = draw(0, 3) != 0;
  c.relu = draw(0, 3) == 0;
  return c;
}

double& At(Values& values, int64_t index) { return values[static_cast<size_t>(index)]; }
double At(const Values& values, int64_t index) { return values[static_cast<size_t>(index)]; }

// Calls visit(y index, weight index, x index) for each product of the convolution.
template <typename Visit>
void ForProducts(const DirectConv& c, Visit&& visit) {
  const int64_t group_in = c.channels / c.group, group_out = c.outputs / c.group;
  int64_t y = 0;
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t o = 0; o < c.outputs; ++o) {
      for (int64_t p = 0; p < c.OutH() * c.OutW(); ++p, ++y) {
        for (int64_t k = 0; k < group_in * c.kernel_h * c.kernel_w; ++k) {
          const int64_t channel = o / group_out * group_in + k / (c.kernel_h * c.kernel_w);
          const int64_t h =
              p / c.OutW() * c.stride_h - c.pad_h + k / c.kernel_w % c.kernel_h * c.dilation;
          const int64_t w = p % c.OutW() * c.stride_w - c.pad_w + k % c.kernel_w * c.dilation;
          if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
          visit(y, o * group_in * c.kernel_h * c.kernel_w + k,
                ((n * c.channels + channel) * c.height + h) * c.width + w);
        }
      }
    }
  }
}

RunResult Direct(const DirectConv& c, const CaseValues& values) {
  const int64_t plane = c.OutH() * c.OutW();
  RunResult result;
  Values y(values.output_grads[0].size());
  const auto channel = [&](size_t i) { return static_cast<int64_t>(i) / plane % c.outputs; };
  for (size_t i = 0; c.bias && i < y.size(); ++i) y[i] = At(values.parameters[1], channel(i));
  ForProducts(c, [&](int64_t o, int64_t w, int64_t x) {
    At(y, o) += At(values.parameters[0], w) * At(values.inputs[0], x);
  });
  Values dy = values.output_grads[0];
  for (size_t i = 0; c.relu && i < y.size(); ++i) {
    if (y[i] > 0) continue;
    y[i] *= 0.5;
    dy[i] *= 0.5;
  }
  Values dx(values.inputs[0].size()), dweight(values.parameters[0].size());
  Values dbias(c.bias ? values.parameters[1].size() : 0);
  for (size_t i = 0; c.bias && i < y.size(); ++i) At(dbias, channel(i)) += dy[i];
  ForProducts(c, [&](int64_t o, int64_t w, int64_t x) {
    At(dx, x) += At(dy, o) * At(values.parameters[0], w);
    At(dweight, w) += At(dy, o) * At(values.inputs[0], x);
  });
  result.outputs = {y};
  result.input_grads = {dx};
  result.parameter_grads = {dweight};
  if (c.bias) result.parameter_grads.push_back(dbias);
  return result;
}

void ExpectNear(const Values& got, const Values& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 1;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 2e-5 * largest) << what << " element " << i;
  }
}

void ExpectSame(const RunResult& got, const RunResult& expected, const std::string& what) {
  ASSERT_TRUE(got.failures.empty()) << what << ": " << got.failures.front();
  ASSERT_NO_FATAL_FAILURE(ExpectNear(got.outputs[0], expected.outputs[0], what + " y"));
  ASSERT_NO_FATAL_FAILURE(ExpectNear(got.input_grads[0], expected.input_grads[0], what + " dx"));
  for (size_t i = 0; i < expected.parameter_grads.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectNear(got.parameter_grads[i], expected.parameter_grads[i],
                                       what + " parameter " + std::to_string(i)));
  }
}

void CheckImplementations(const DirectConv& conv, int threads, bool native_only = false) {
  const LayerSample sample = SampleOf(conv);
  const LayerCase layer_case(ConvolutionType(), sample, DType::kF32);
  const CaseValues values = DrawValues(layer_case);
  const RunResult expected = Direct(conv, values);
  for (const ImplementationPtr& implementation : ConvolutionType().implementations) {
    if (implementation->device != DeviceType::kCpu) continue;
    if (native_only && implementation->name != kNativeImplementation) continue;
    const OpDesc query{layer_case.layer(), layer_case.infer_context(), layer_case.info(), threads};
    if (!implementation->Supports(query).yes) continue;
    RunOptions options;
    options.threads = threads;
    options.backward = true;
    options.implementation = implementation.get();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(
        RunLayer(layer_case, values, options), expected,
        StrCat(implementation->name, " threads ", threads, " batch ", conv.batch, " channels ",
               conv.channels, " image ", conv.height, "x", conv.width, " ", sample.name)));
  }
}

TEST(Convolution, NativeAgreesWithDirectLoopsOnRandomShapes) {
  for (uint64_t number = 0; number < 500; ++number) {
    ASSERT_NO_FATAL_FAILURE(
        CheckImplementations(DrawConv(number), 1 + static_cast<int>(number % 3), true));
  }
}

// Sizes at which the fast implementation changes its method: parts of the depth, blocks of pixels,
// many images.
TEST(Convolution, EveryImplementationAgreesWithDirectLoopsBeyondBlockSizes) {
  const DirectConv deep{2, 31, 6, 7, 13, 1, 3, 3, 1, 1, 1, 1, 1, true, true};
  const DirectConv wide{2, 2, 30, 30, 3, 1, 3, 3, 1, 1, 0, 0, 1, true, false};
  const DirectConv many{70, 3, 3, 3, 14, 1, 3, 3, 1, 1, 0, 0, 1, true, false};
  const DirectConv pointwise{3, 290, 7, 5, 15, 1, 1, 1, 1, 1, 0, 0, 1, true, true};
  const DirectConv one_image{1, 4, 40, 40, 6, 2, 3, 3, 1, 1, 1, 1, 1, true, false};
  for (const DirectConv& conv : {deep, wide, many, pointwise, one_image}) {
    for (int threads : {1, 2, 5}) ASSERT_NO_FATAL_FAILURE(CheckImplementations(conv, threads));
  }
}

// -inf times the slope 0 would be NaN.
TEST(Convolution, ReluOfInfinityBelowZeroIsZero) {
  const DirectConv pointwise{2, 16, 5, 5, 16, 1, 1, 1, 1, 1, 0, 0, 1, true, true};
  const DirectConv depthwise{2, 16, 5, 5, 16, 16, 3, 3, 1, 1, 0, 0, 1, true, true};
  for (const DirectConv& conv : {pointwise, depthwise}) {
    LayerSample sample = SampleOf(conv);
    ASSERT_NE(sample.prototxt.find("negative_slope: 0.5"), std::string::npos) << sample.prototxt;
    sample.prototxt.replace(sample.prototxt.find("0.5"), 3, "0");
    const LayerCase layer_case(ConvolutionType(), sample, DType::kF32);
    CaseValues values = DrawValues(layer_case);
    std::ranges::fill(values.inputs[0], -std::numeric_limits<double>::infinity());
    std::ranges::fill(values.parameters[0], 1.0);
    for (const ImplementationPtr& implementation : ConvolutionType().implementations) {
      if (implementation->device != DeviceType::kCpu) continue;
      const OpDesc query{layer_case.layer(), layer_case.infer_context(), layer_case.info(), 1};
      if (!implementation->Supports(query).yes) continue;
      const RunResult result =
          RunLayer(layer_case, values, {.implementation = implementation.get()});
      for (const double y : result.outputs[0]) ASSERT_EQ(y, 0) << implementation->name;
    }
  }
}

TEST(Convolution, PackedImplementationSaysWhyItIsNotUsed) {
  const std::vector<ImplementationPtr> implementations = ConvolutionType().implementations;
  const auto found = std::ranges::find(implementations, "packed", &Implementation::name);
  ASSERT_NE(found, implementations.end());
  const Implementation& packed = **found;
  LayerSample sample;
  sample.prototxt = "convolution_param { num_output: 2 kernel_size: 1 }";
  sample.inputs = {{.shape = {1, 2, 3, 3, 3}}};
  const LayerCase volume(ConvolutionType(), sample, DType::kF32);
  const Support support = packed.Supports({volume.layer(), volume.infer_context(), volume.info()});
  EXPECT_FALSE(support.yes);
  EXPECT_FALSE(support.reason.empty());
}

}  // namespace
}  // namespace crema::test
