// PSROIAlign (Light-Head R-CNN) and DeformablePSROIPooling (Deformable ConvNets): the mean over
// interpolated samples of each bin of each region, where cell (i, j) of output channel c reads
// channel (c group_size + i) group_size + j of the map.
// - PSROIAlign: a bin is clipped to the map, and has sample_num samples on each side between its
//   ends, at distances of its size / (sample_num + 1). The mean is over all, also over those beyond
//   the clipped end.
// - DeformablePSROIPooling: corners are rounded to pixels, and position i has coordinate i + 0.5. A
//   bin has sample_per_part samples on each side, the first at its corner. An offset, times
//   trans_std, moves it by a part of the size of the region. The mean is over the samples on the
//   map.
// The gradient goes to the four positions of each sample, and to the offsets; regions get none.
#include "layers/detection/position_sensitive.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/region_pooling.h"
#include "layers/layer_number.h"

namespace crema {
namespace {

constexpr int64_t kMostSamples = 1000;  // on one side of a bin

bool Aligns(const LayerParameter& param) { return param.type() == "PSROIAlign"; }

class PositionSensitivePooling final : public RegionPooling {
 public:
  explicit PositionSensitivePooling(const LayerParameter& param)
      : RegionPooling(param,
                      Aligns(param) ? param.psroi_align_param().spatial_scale()
                                    : param.deformable_psroi_pooling_param().spatial_scale(),
                      Aligns(param) ? "psroi_align_param.spatial_scale"
                                    : "deformable_psroi_pooling_param.spatial_scale") {
    if (Aligns(param)) {
      const PSROIAlignParameter& p = param.psroi_align_param();
      CheckNumbers("psroi_align_param", p.output_dim(), p.group_size());
      CheckSamples("psroi_align_param.sample_num", p.sample_num());
      return;
    }
    const DeformablePSROIPoolingParameter& p = param.deformable_psroi_pooling_param();
    CheckNumbers("deformable_psroi_pooling_param", p.output_dim(), p.group_size());
    CheckSamples("deformable_psroi_pooling_param.sample_per_part", p.sample_per_part());
    FiniteNumber(*this, p.trans_std(), "deformable_psroi_pooling_param.trans_std");
    if (p.has_pooled_size()) {
      Require("deformable_psroi_pooling_param.pooled_size", p.pooled_size(), 1);
    }
    Require("deformable_psroi_pooling_param.part_size", p.part_size(), 0);
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckInputs(context);
    const Shape &map = context.inputs[0].shape, &regions = context.inputs[1].shape;
    const PositionSensitive p(*this, map, Shape{});
    // Uses division, because products could overflow.
    if (map[1] % p.channels != 0 || map[1] / p.channels % p.cells != 0 ||
        map[1] / p.channels / p.cells != p.cells) {
      FailInputs(*this, StrCat("output_dim ", p.channels, " and group_size ", p.cells,
                               " need output_dim x group_size x group_size channels, but the "
                               "feature map has shape ",
                               ToString(map)));
    }
    LayerInfo info = InfoOf(context, p.channels, p.bins, p.bins);
    if (UsesOffsets()) {
      if (context.inputs.size() < 3) {
        FailField(*this, "deformable_psroi_pooling_param.no_trans",
                  "the third bottom, with the offsets, is missing; add it, or set no_trans: true");
      }
      CheckOffsets(context.inputs[2].shape, regions[0], p);
      info.backward_reads_input = {true, true, true};
    }
    if (context.inputs.size() > 2) info.gradient_forbidden = {false, true, !UsesOffsets()};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const PositionSensitive p = Parameters(args.inputs);
    const int64_t plane = p.height * p.width;
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* offsets = Offsets<T>(args.inputs);
      ForEachRegion(args, p.channels, [&](int64_t c, int64_t r, const Region& region) {
        const T* x = args.inputs[0].data<T>() + region.image * args.inputs[0].shape()[1] * plane;
        T* y = args.outputs[0].data<T>() + (r * p.channels + c) * p.bins * p.bins;
        ForEachBin(p, region, offsets, r, c,
                   [&](int64_t bin, int64_t channel, const BinSamples& samples) {
                     y[bin] = static_cast<T>(samples.Mean(x + channel * plane));
                   });
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      if (!args.input_grads[0].empty()) MapGradient<T>(args);
      if (args.input_grads.size() > 2 && !args.input_grads[2].empty()) OffsetGradient<T>(args);
    });
  }

 private:
  bool UsesOffsets() const {
    return !Aligns(param()) && !param().deformable_psroi_pooling_param().no_trans();
  }

  PositionSensitive Parameters(std::span<const ConstTensorView> inputs) const {
    return {*this, inputs[0].shape(), UsesOffsets() ? inputs[2].shape() : Shape{}};
  }

  template <typename T>
  const T* Offsets(std::span<const ConstTensorView> inputs) const {
    return UsesOffsets() ? inputs[2].data<T>() : nullptr;
  }

  // Calls body(bin, channel of the map, samples) for each bin of output channel c of a region.
  template <typename T, typename Body>
  static void ForEachBin(const PositionSensitive& p, const Region& region, const T* offsets,
                         int64_t r, int64_t c, const Body& body) {
    const double box[] = {region.box.xmin, region.box.ymin, region.box.xmax, region.box.ymax};
    for (int64_t bin = 0; bin < p.bins * p.bins; ++bin) {
      const int64_t row = bin / p.bins, column = bin % p.bins;
      body(bin, p.MapChannel(c, row, column), BinSamples(p, box, offsets, r, c, row, column));
    }
  }

  template <typename T>
  void MapGradient(const BackwardArgs& args) const {
    const PositionSensitive p = Parameters(args.inputs);
    const int64_t plane = p.height * p.width, channels = args.inputs[0].shape()[1];
    T* dx = args.input_grads[0].data<T>();
    std::fill_n(dx, args.input_grads[0].count(), T(0));
    // Output channels read disjoint channels of the map.
    ForEachRegion(args, p.channels, [&](int64_t c, int64_t r, const Region& region) {
      const T* dy = args.output_grads[0].data<T>() + (r * p.channels + c) * p.bins * p.bins;
      ForEachBin(p, region, Offsets<T>(args.inputs), r, c,
                 [&](int64_t bin, int64_t channel, const BinSamples& samples) {
                   T* to = dx + (region.image * channels + channel) * plane;
                   const double share =
                       static_cast<double>(dy[bin]) / static_cast<double>(samples.divisor);
                   samples.ForEach([&](const AxisSample& rows, const AxisSample& columns) {
                     const auto add = [&](int64_t row, int64_t column, double weight) {
                       to[row * p.width + column] += static_cast<T>(share * weight);
                     };
                     const double down = rows.high_weight, across = columns.high_weight;
                     add(rows.low, columns.low, (1 - down) * (1 - across));
                     add(rows.low, columns.high, (1 - down) * across);
                     add(rows.high, columns.low, down * (1 - across));
                     add(rows.high, columns.high, down * across);
                   });
                 });
    });
  }

  template <typename T>
  void OffsetGradient(const BackwardArgs& args) const {
    const PositionSensitive p = Parameters(args.inputs);
    const int64_t plane = p.height * p.width, channels = args.inputs[0].shape()[1];
    T* doffsets = args.input_grads[2].data<T>();
    std::fill_n(doffsets, args.input_grads[2].count(), T(0));
    ForEachRegion(args, p.classes, [&](int64_t k, int64_t r, const Region& region) {
      const T* x = args.inputs[0].data<T>() + region.image * channels * plane;
      T* to = doffsets + (r * p.classes + k) * 2 * p.parts * p.parts;
      for (int64_t c = k * p.class_channels; c < (k + 1) * p.class_channels; ++c) {
        const T* dy = args.output_grads[0].data<T>() + (r * p.channels + c) * p.bins * p.bins;
        ForEachBin(p, region, Offsets<T>(args.inputs), r, c,
                   [&](int64_t bin, int64_t channel, const BinSamples& samples) {
                     const int64_t part = p.Part(bin / p.bins) * p.parts + p.Part(bin % p.bins);
                     for (int64_t along = 0; along < 2; ++along) {
                       to[along * p.parts * p.parts + part] +=
                           static_cast<T>(static_cast<double>(dy[bin]) *
                                          samples.Slope(x + channel * plane, along));
                     }
                   });
      }
    });
  }

  void CheckOffsets(const Shape& offsets, int64_t regions, const PositionSensitive& p) const {
    const bool fits = offsets.axes() == 4 && offsets[0] == regions && offsets[1] >= 2 &&
                      offsets[1] % 2 == 0 && p.channels % (offsets[1] / 2) == 0 &&
                      offsets[2] == p.parts && offsets[3] == p.parts;
    if (fits) return;
    FailInputs(*this, StrCat("the offsets have shape ", ToString(offsets), ", expected ", regions,
                             " x 2 K x ", p.parts, " x ", p.parts, ", where K divides output_dim ",
                             p.channels));
  }

  void Require(const std::string& field, int64_t value, int64_t least) const {
    if (value >= least) return;
    FailField(
        *this, field,
        StrCat(field.substr(field.find('.') + 1), " is ", value, ", expected ", least, " or more"));
  }
  void CheckNumbers(const std::string& message, int64_t output_dim, int64_t group_size) const {
    Require(message + ".output_dim", output_dim, 1);
    Require(message + ".group_size", group_size, 1);
  }
  void CheckSamples(const std::string& field, int64_t samples) const {
    Require(field, samples, 1);
    if (samples <= kMostSamples) return;
    FailField(*this, field,
              StrCat("gives ", samples, " samples along a bin; the most is ", kMostSamples));
  }
};

LayerType CommonType(const char* name, const char* message) {
  auto type = RegionPoolingType<PositionSensitivePooling>(
      name, "x: N x (output_dim group_size group_size) x H x W, the score maps", message);
  type.differences = {
      "An image index outside the batch, or a corner that is not a number, is an error."};
  return type;
}

LayerSample Sample(std::string name, const std::string& prototxt,
                   std::vector<std::vector<int64_t>> shapes) {
  LayerSample sample{.name = std::move(name), .prototxt = prototxt, .inputs = {}};
  for (std::vector<int64_t>& shape : shapes) sample.inputs.push_back({.shape = std::move(shape)});
  sample.inputs[1] = {.shape = sample.inputs[1].shape, .low = 0, .high = 2, .integer = true};
  return sample;
}

std::vector<LayerSample> DeformableSamples() {
  const auto sample = [](std::string name, const std::string& fields,
                         std::vector<std::vector<int64_t>> shapes) {
    return Sample(std::move(name),
                  "deformable_psroi_pooling_param { output_dim: 2 group_size: 2 " + fields + " }",
                  std::move(shapes));
  };
  const std::vector<int64_t> map = {3, 8, 6, 7};
  return {
      sample("offsets", "spatial_scale: 1.3 trans_std: 0.15 sample_per_part: 3",
             {map, {6, 5}, {6, 2, 2, 2}}),
      sample("classes", "spatial_scale: 1.6 trans_std: 0.3 sample_per_part: 2 part_size: 1",
             {map, {6, 5}, {6, 4, 1, 1}}),
      sample("bins", "spatial_scale: 1.7 trans_std: 0.2 pooled_size: 3 part_size: 2",
             {map, {5, 5}, {5, 2, 2, 2}}),
      sample("no_trans", "spatial_scale: 1.3 no_trans: true sample_per_part: 4", {map, {6, 5}}),
      sample("unused_offsets", "spatial_scale: 1 no_trans: true", {map, {2, 5}, {2, 2, 2, 2}}),
      sample("outside", "spatial_scale: 9 trans_std: 5", {map, {6, 5}, {6, 2, 2, 2}}),
      sample("no_regions", "spatial_scale: 1 trans_std: 0.1", {map, {0, 5}, {0, 2, 2, 2}}),
  };
}

}  // namespace

PositionSensitive::PositionSensitive(const Layer& layer, const Shape& map, const Shape& offsets)
    : align(Aligns(layer.param())), height(map[2]), width(map[3]) {
  if (align) {
    const PSROIAlignParameter& p = layer.param().psroi_align_param();
    scale = double{p.spatial_scale()};
    channels = p.output_dim();
    cells = bins = parts = p.group_size();
    samples = p.sample_num();
  } else {
    const DeformablePSROIPoolingParameter& p = layer.param().deformable_psroi_pooling_param();
    scale = double{p.spatial_scale()};
    trans_std = double{p.trans_std()};
    channels = p.output_dim();
    cells = p.group_size();
    bins = p.has_pooled_size() ? p.pooled_size() : cells;
    parts = p.part_size() > 0 ? p.part_size() : bins;
    samples = p.sample_per_part();
    if (offsets.axes() == 4) classes = std::max<int64_t>(1, offsets[1] / 2);
  }
  class_channels = channels / classes;
  // An empty map has no samples.
  if (height * width == 0) samples = 0;
}

void RegisterPSROIAlign(Registry& registry) {
  auto type = CommonType("PSROIAlign", "psroi_align_param");
  type.summary = "PSROIPooling with interpolated samples instead of rounding (Light-Head R-CNN).";
  type.formula =
      "y[r, c, i, j] = sum of x[image(r), (c g + i) g + j], bilinear, at the samples of bin (i, j) "
      "of region r, clipped to the map, / sample_num^2; g = group_size";
  type.output_docs = {"y: R x output_dim x group_size x group_size"};
  type.origin = "Light-Head R-CNN";
  const auto sample = [](std::string name, const std::string& fields, int64_t regions = 6) {
    return Sample(std::move(name), "psroi_align_param { " + fields + " }",
                  {{3, 8, 6, 7}, {regions, 5}});
  };
  type.samples = {
      sample("typical", "spatial_scale: 1.3 output_dim: 2 group_size: 2"),
      sample("one_sample", "spatial_scale: 0.7 output_dim: 2 group_size: 2 sample_num: 1"),
      sample("outside", "spatial_scale: 7 output_dim: 2 group_size: 2 sample_num: 3"),
      sample("one_bin", "spatial_scale: 0.02 output_dim: 8 group_size: 1"),
      sample("no_regions", "spatial_scale: 1 output_dim: 2 group_size: 2", 0),
      Sample("empty_map", "psroi_align_param { spatial_scale: 1 output_dim: 2 group_size: 2 }",
             {{3, 8, 0, 4}, {2, 5}}),
  };
  const auto bad = [](const std::string& fields, const char* expect) {
    return BadSample{"psroi_align_param { " + fields + " }", {{1, 8, 3, 4}, {2, 5}}, expect};
  };
  type.bad_samples = {
      bad("spatial_scale: 1 output_dim: 3 group_size: 2", "output_dim 3 and group_size 2 need"),
      bad("spatial_scale: 1 output_dim: 0 group_size: 2", "output_dim is 0"),
      bad("spatial_scale: 1 output_dim: 2 group_size: -2", "group_size is -2"),
      bad("spatial_scale: -1 output_dim: 2 group_size: 2", "spatial_scale is -1"),
      bad("spatial_scale: 1 output_dim: 2 group_size: 2 sample_num: 0", "sample_num is 0"),
      bad("spatial_scale: 1 output_dim: 2 group_size: 2 sample_num: 2000", "2000 samples"),
  };
  registry.Add(std::move(type));
}

void RegisterDeformablePSROIPooling(Registry& registry) {
  auto type = CommonType("DeformablePSROIPooling", "deformable_psroi_pooling_param");
  type.summary = "Position-sensitive region pooling at learned offsets (Deformable R-FCN).";
  type.formula =
      "y[r, c, i, j] = mean of x[image(r), (c g + i') g + j'], bilinear, over the samples of bin "
      "(i, j) of region r on the map; the bin is moved by trans_std x offset x the size of the "
      "region; g = group_size, i' = floor(i g / pooled_size)";
  type.input_docs.push_back(
      "offsets, unless no_trans: R x 2 K x part_size x part_size, to the right and down for each "
      "of "
      "K classes, which share the output channels");
  type.output_docs = {"y: R x output_dim x pooled_size x pooled_size"};
  type.differences.emplace_back("pooled_size has an effect; the ports for Caffe take group_size.");
  type.origin = "Deformable ConvNets";
  type.inputs = {2, 3};
  type.samples = DeformableSamples();
  const auto bad = [](const std::string& fields, const char* expect,
                      std::vector<int64_t> offsets = {2, 2, 2, 2}) {
    return BadSample{"deformable_psroi_pooling_param { " + fields + " }",
                     {{1, 8, 3, 4}, {2, 5}, std::move(offsets)},
                     expect};
  };
  const std::string good = "spatial_scale: 1 output_dim: 2 group_size: 2 ";
  type.bad_samples = {
      bad("spatial_scale: 1 output_dim: 3 group_size: 2", "output_dim 3 and group_size 2 need"),
      bad("spatial_scale: 1 output_dim: -1 group_size: 2", "output_dim is -1"),
      bad("spatial_scale: 1 output_dim: 2 group_size: 0", "group_size is 0"),
      bad("spatial_scale: 0 output_dim: 2 group_size: 2", "spatial_scale is 0"),
      bad(good + "sample_per_part: 0", "sample_per_part is 0"),
      bad(good + "pooled_size: 0", "pooled_size is 0"),
      bad(good + "part_size: -1", "part_size is -1"),
      bad(good + "trans_std: inf", "finite number"),
      bad(good, "2 x 2 K x 2 x 2", {2, 3, 2, 2}),
      bad(good, "2 x 2 K x 2 x 2", {1, 2, 2, 2}),
      bad(good + "part_size: 3", "2 x 2 K x 3 x 3"),
      BadSample{"deformable_psroi_pooling_param { " + good + " }",
                {{1, 8, 3, 4}, {2, 5}},
                "no_trans: true"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
