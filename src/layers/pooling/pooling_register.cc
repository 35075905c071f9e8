// The types Pooling and Pooling3D, with their samples.
#include <string>
#include <utility>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/pooling/pooling.h"

namespace crema {
namespace {

LayerSample Sample(std::string name, const std::string& fields, std::vector<int64_t> shape) {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt = "pooling_param { " + fields + " }";
  SampleInput input{.shape = std::move(shape), .distinct = true};
  if (sample.name.starts_with("stochastic")) input.low = 0.1;
  if (sample.name.find("test") != std::string::npos) sample.phase = TEST;
  if (sample.name.find("positions") != std::string::npos) sample.outputs = 2;
  // STOCHASTIC takes values above 0.
  if (sample.name.starts_with("stochastic")) input = {.shape = input.shape, .low = 0.1, .high = 2};
  sample.inputs = {std::move(input)};
  return sample;
}

std::vector<LayerSample> PlaneSamples() {
  return {
      Sample("whole_blocks", "kernel_size: 3 stride: 2", {2, 32, 7, 6}),
      Sample("whole_blocks_pad", "kernel_size: 3 stride: 1 pad: 1", {1, 16, 5, 4}),
      Sample("whole_blocks_average", "pool: AVE kernel_size: 3 stride: 2 pad: 1", {2, 16, 5, 6}),
      Sample("whole_blocks_global", "pool: AVE global_pooling: true", {2, 48, 5, 3}),
      Sample("whole_blocks_large", "kernel_size: 16 stride: 3", {1, 16, 20, 17}),
      Sample("max_2x2", "pool: MAX kernel_size: 2 stride: 2", {2, 3, 4, 6}),
      Sample("max_2x2_odd", "kernel_size: 2 stride: 2 round_mode: FLOOR", {1, 2, 5, 7}),
      Sample("max_ceil_mode", "kernel_size: 2 stride: 2 ceil_mode: false", {1, 2, 5, 7}),
      Sample("max_torch", "kernel_size: 2 stride: 2 torch_pooling: true", {1, 2, 5, 7}),
      Sample("max_overlap_ceil", "kernel_size: 3 stride: 2", {2, 2, 6, 8}),
      Sample("max_pad_clip", "kernel_size: 3 stride: 2 pad: 1", {1, 2, 6, 5}),
      Sample("max_two_axes_apart",
             "kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 pad_h: 2 pad_w: 0", {1, 2, 5, 7}),
      Sample("max_global", "global_pooling: true", {2, 2, 3, 5}),
      Sample("max_large_window", "kernel_size: 17 stride: 1 pad: 8", {1, 1, 6, 5}),
      Sample("max_empty_window", "kernel_size: 1 stride: 2", {1, 2, 4, 4}),
      Sample("average", "pool: AVE kernel_size: 2", {2, 3, 4, 5}),
      Sample("average_ceil", "pool: AVE kernel_size: 3 stride: 2", {2, 2, 6, 8}),
      Sample("average_pad", "pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 2, 6, 5}),
      Sample("average_without_pad",
             "pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false", {1, 2, 6, 5}),
      Sample("average_global", "pool: AVE global_pooling: true", {2, 3, 4, 5}),
      Sample("stochastic_train", "pool: STOCHASTIC kernel_size: 2 stride: 2", {2, 2, 4, 5}),
      Sample("stochastic_test", "pool: STOCHASTIC kernel_size: 3 stride: 2", {1, 2, 5, 6}),
      Sample("positions", "kernel_size: 3 stride: 2", {1, 2, 5, 6}),
      Sample("empty_batch", "kernel_size: 2", {0, 2, 4, 4}),
  };
}

std::vector<LayerSample> NdSamples() {
  return {
      Sample("line", "kernel_size: 3 stride: 2", {2, 3, 8}),
      Sample("line_average", "pool: AVE kernel_nd: 3 stride_nd: 2 pad_nd: 1", {2, 3, 8}),
      Sample("line_positions", "kernel_size: 2", {1, 2, 6}),
      Sample("channels_are_spatial", "axis: 0 kernel_nd: 3 kernel_nd: 2", {2, 5, 6}),
      Sample("volume_max", "kernel_size: 2 stride: 2", {1, 2, 3, 4, 5}),
      Sample("volume_axes_apart",
             "kernel_nd: 1 kernel_nd: 3 kernel_nd: 2 stride_nd: 1 stride_nd: 2 stride_nd: 2 "
             "pad_nd: 0 pad_nd: 1 pad_nd: 1",
             {1, 2, 2, 5, 4}),
      Sample("volume_intel",
             "kernel_size_3d: 2 kernel_size_3d: 2 kernel_size_3d: 3 stride_3d: 2 "
             "pad_3d: 1",
             {1, 1, 4, 3, 5}),
      Sample("volume_average", "pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 2, 4, 3, 5}),
      Sample("volume_average_without_pad",
             "pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false", {1, 2, 4, 3, 5}),
      Sample("volume_global", "pool: AVE global_pooling: true", {2, 2, 2, 3, 2}),
      Sample("volume_positions", "kernel_size: 2 stride: 1", {1, 2, 3, 3, 3}),
      Sample("stochastic_volume_train", "pool: STOCHASTIC kernel_size: 2", {1, 2, 3, 3, 3}),
      Sample("stochastic_volume_test", "pool: STOCHASTIC kernel_size: 2", {1, 2, 3, 3, 2}),
      Sample("four_axes", "kernel_size: 2 stride: 2", {1, 2, 2, 3, 2, 3}),
      Sample("volume_empty_batch", "kernel_size: 2", {0, 2, 3, 3, 3}),
  };
}

std::vector<BadSample> BadSamples() {
  const auto bad = [](const char* fields, const char* expect, int outputs = 1,
                      std::vector<int64_t> shape = {1, 2, 4, 4}) {
    return BadSample{
        std::string("pooling_param { ") + fields + " }", {std::move(shape)}, expect, outputs};
  };
  return {
      bad("", "kernel_size is missing"),
      bad("kernel_size: 0", "above 0"),
      bad("kernel_h: 2", "must both be given"),
      bad("kernel_size: 2 kernel_h: 2 kernel_w: 2", "not both"),
      bad("kernel_size: 2 stride: 0", "stride must be above 0"),
      bad("kernel_size: 2 stride_h: 2", "must both be given"),
      bad("kernel_size: 2 pad: 1 pad_h: 1 pad_w: 1", "not both"),
      bad("kernel_size: 2 pad: 2", "smaller than the kernel"),
      bad("kernel_nd: 2 kernel_nd: 3 pad_nd: 1 pad_nd: 3", "pad 1x3 must be smaller"),
      bad("kernel_size: 2 kernel_nd: 2", "given in two ways"),
      bad("kernel_nd: 2 kernel_size_3d: 2", "given in two ways"),
      bad("kernel_size: 2 stride: 2 stride_nd: 2", "given in two ways"),
      bad("kernel_nd: 2 kernel_nd: 2 pad_nd: 1 pad_nd: 1 pad_nd: 1", "pad is given for 3 axes"),
      bad("kernel_nd: 2 kernel_nd: 2 kernel_nd: 2", "kernel is given for 3 spatial axes"),
      bad("kernel_size: 2 stride_h: 2 stride_w: 2", "stride is given for 2 spatial axes", 1,
          {1, 1, 4, 4, 4}),
      bad("global_pooling: true kernel_size: 2", "whole plane"),
      bad("global_pooling: true pad: 1", "pad must be 0"),
      bad("global_pooling: true stride: 2", "stride must be 1"),
      bad("global_pooling: true", "does not fit", 1, {1, 2, 0, 4}),
      bad("pool: STOCHASTIC kernel_size: 2 pad: 1", "pad must be 0"),
      bad("pool: AVE kernel_size: 2", "MAX pooling only", 2),
      bad("pool: AVE kernel_size: 1 stride: 2", "a mean of nothing"),
      bad("kernel_size: 9", "does not fit"),
      bad("kernel_size: 2", "one spatial axis or more", 1, {2, 4}),
      bad("kernel_size: 2 axis: 4", "axis 4 is outside"),
      bad("kernel_size: 2 ceil_mode: true round_mode: FLOOR",
          "round_mode: FLOOR and ceil_mode: true contradict"),
      bad("kernel_size: 2 ceil_mode: false round_mode: CEIL",
          "round_mode: CEIL and ceil_mode: false contradict"),
      bad("kernel_size: 2 torch_pooling: true round_mode: CEIL",
          "round_mode: CEIL and torch_pooling: true contradict"),
  };
}

LayerType CommonType() {
  LayerType type;
  type.category = "pooling";
  type.traits = {.fits_16_bits = true};
  type.formula =
      "y[n, c, p] = max or mean of x[n, c, p * stride - pad + 0..kernel-1]; size = ceil((in + 2 "
      "pad - kernel) / stride) + 1, less 1 where the last window would start in the padding at the "
      "end";
  type.output_docs = {"y: the spatial axes become the number of windows",
                      "positions (optional, for MAX): index of each maximum in its plane (row * "
                      "width + column; with other spatial axes in row-major order), -1 for none"};
  type.param_fields = {"pooling_param"};
  type.outputs = {1, 2};
  return type;
}

}  // namespace

void RegisterPooling(Registry& registry) {
  LayerType type = CommonType();
  type.name = "Pooling";
  type.traits.computes_on_bytes = true;
  type.summary = "One value for each window of each plane: the largest, the mean, or a drawn one.";
  type.input_docs = {"x: N x C x spatial axes, one or more"};
  type.differences = {
      "Any number of spatial axes; Caffe takes two.", "STOCHASTIC runs on the CPU too.",
      "AVE with a last window completely outside of the image is an error; Caffe divides 0 by 0.",
      "ceil_mode, round_mode and torch_pooling that contradict each other are an error.",
      "`engine` changes nothing: AVE is Caffe's own on all devices, not cuDNN's at the edges."};
  type.unread_fields = {"pooling_param.kernel_depth", "pooling_param.temporal_stride",
                        "pooling_param.temporal_pad"};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Pooling>(p, ReadPoolSettings);
  };
#ifdef CREMA_HAVE_ONEDNN
  type.implementations.push_back(OneDnnPoolingImplementation());
#endif
  type.implementations.push_back(BlockedPoolingImplementation());
#ifdef CREMA_HAVE_ONEDNN
  type.implementations.push_back(OneDnnBF16PoolingImplementation());
#endif
  type.implementations.push_back(BlockedBF16PoolingImplementation());
  type.implementations.push_back(ChannelsLastBF16PoolingImplementation());
  type.implementations.push_back(Int8PoolingImplementation());
  type.implementations.push_back(Int8PlainPoolingImplementation());
  type.samples = PlaneSamples();
  for (LayerSample& sample : NdSamples()) type.samples.push_back(std::move(sample));
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

void RegisterPooling3D(Registry& registry) {
  LayerType type = CommonType();
  type.name = "Pooling3D";
  type.summary = "Pooling of clips, with the names of C3D for the window in time.";
  type.input_docs = {"x: N x C x L x H x W, L the frames"};
  type.origin = "C3D";
  type.differences = {
      "MAX takes padding too, and time may be padded; C3D pads AVE in height and width only.",
      "With padding a last window that starts after the image is dropped, as in Caffe; C3D keeps "
      "it."};
  type.unread_fields = {"pooling_param.kernel_nd", "pooling_param.stride_nd",
                        "pooling_param.pad_nd",    "pooling_param.kernel_size_3d",
                        "pooling_param.stride_3d", "pooling_param.pad_3d",
                        "pooling_param.axis"};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Pooling>(p, ReadPool3DSettings);
  };
  type.samples = {
      Sample("c3d", "pool: MAX kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2",
             {1, 2, 4, 4, 5}),
      Sample("first_of_c3d", "kernel_size: 2 kernel_depth: 1 stride: 2 temporal_stride: 1",
             {1, 2, 3, 4, 4}),
      Sample("pads", "kernel_size: 3 kernel_depth: 2 pad: 1 temporal_pad: 1", {1, 1, 3, 4, 3}),
      Sample("sides", "pool: AVE kernel_h: 2 kernel_w: 3 kernel_depth: 2 stride_h: 1 stride_w: 2",
             {1, 2, 3, 3, 5}),
      Sample("global", "pool: AVE global_pooling: true", {1, 2, 3, 2, 2}),
      Sample("stochastic", "pool: STOCHASTIC kernel_size: 2 kernel_depth: 3", {1, 1, 4, 3, 3}),
      Sample("positions", "kernel_size: 2 kernel_depth: 2", {1, 2, 3, 3, 3}),
      Sample("empty_batch", "kernel_size: 2 kernel_depth: 2", {0, 2, 3, 3, 3}),
  };
  const auto bad = [](const char* fields, const char* expect, std::vector<int64_t> shape) {
    return BadSample{std::string("pooling_param { ") + fields + " }", {std::move(shape)}, expect};
  };
  type.bad_samples = {
      bad("kernel_size: 2", "needs kernel_size and kernel_depth", {1, 1, 3, 3, 3}),
      bad("kernel_depth: 2", "needs kernel_size and kernel_depth", {1, 1, 3, 3, 3}),
      bad("kernel_size: 2 kernel_depth: 0", "above 0", {1, 1, 3, 3, 3}),
      bad("kernel_size: 2 kernel_depth: 2 temporal_stride: 0", "stride must", {1, 1, 3, 3, 3}),
      bad("kernel_size: 2 kernel_depth: 2 temporal_pad: 2", "smaller than", {1, 1, 3, 3, 3}),
      bad("global_pooling: true kernel_depth: 2", "whole plane", {1, 1, 3, 3, 3}),
      bad("kernel_size: 2 kernel_depth: 2", "given for 3 spatial axes", {1, 3, 3, 3}),
      bad("kernel_size: 2 kernel_depth: 9", "does not fit", {1, 1, 3, 3, 3}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
