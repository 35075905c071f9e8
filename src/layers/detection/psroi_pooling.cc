// PSROIPooling: the mean over each of group_size x group_size bins of each region. Bin (i, j) of
// output channel c reads channel (c group_size + i) group_size + j of the map; an empty bin gives
// 0. Corners are rounded, the last pixel belongs to the region, and a region is at least 0.1
// positions long. The gradient of a bin is spread evenly over its positions; regions get no
// gradient.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/region_pooling.h"

namespace crema {
namespace {

class PSROIPooling final : public RegionPooling {
 public:
  explicit PSROIPooling(const LayerParameter& param)
      : RegionPooling(param, param.psroi_pooling_param().spatial_scale(),
                      "psroi_pooling_param.spatial_scale"),
        channels_(param.psroi_pooling_param().output_dim()),
        group_(param.psroi_pooling_param().group_size()) {
    if (channels_ < 1) {
      FailField(*this, "psroi_pooling_param.output_dim",
                StrCat("output_dim is ", channels_, ", expected 1 or more"));
    }
    if (group_ < 1) {
      FailField(*this, "psroi_pooling_param.group_size",
                StrCat("group_size is ", group_, ", expected 1 or more"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckInputs(context);
    const Shape& map = context.inputs[0].shape;
    // Uses division, because products could overflow.
    if (map[1] % channels_ != 0 || map[1] / channels_ % group_ != 0 ||
        map[1] / channels_ / group_ != group_) {
      FailInputs(*this, StrCat("output_dim ", channels_, " and group_size ", group_,
                               " need output_dim x group_size x group_size channels, but the "
                               "feature map has shape ",
                               ToString(map)));
    }
    return InfoOf(context, channels_, group_, group_);
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ForEachBin(args,
                 [&](int64_t plane, int64_t out, const BinRange& rows, const BinRange& columns) {
                   double sum = 0;
                   for (int64_t i = rows.begin; i < rows.end; ++i) {
                     for (int64_t j = columns.begin; j < columns.end; ++j) {
                       sum += double{x[(plane * map[2] + i) * map[3] + j]};
                     }
                   }
                   const int64_t count = rows.size() * columns.size();
                   y[out] = count == 0 ? T(0) : static_cast<T>(sum / static_cast<double>(count));
                 });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      std::fill_n(dx, args.input_grads[0].count(), T(0));
      ForEachBin(args,
                 [&](int64_t plane, int64_t out, const BinRange& rows, const BinRange& columns) {
                   const int64_t count = rows.size() * columns.size();
                   for (int64_t i = rows.begin; i < rows.end; ++i) {
                     for (int64_t j = columns.begin; j < columns.end; ++j) {
                       dx[(plane * map[2] + i) * map[3] + j] += dy[out] / static_cast<T>(count);
                     }
                   }
                 });
    });
  }

 private:
  // Calls body(input plane, output element, rows, columns) for each bin of each region. Output
  // channels read disjoint planes.
  template <typename Args, typename Body>
  void ForEachBin(const Args& args, Body&& body) const {
    const Shape& map = args.inputs[0].shape();
    ForEachRegion(args, channels_, [&](int64_t c, int64_t r, const Region& region) {
      const Box& box = region.box;
      const RegionSide high = PixelSide(box.ymin, box.ymax, scale(), group_);
      const RegionSide wide = PixelSide(box.xmin, box.xmax, scale(), group_);
      for (int64_t bin = 0; bin < group_ * group_; ++bin) {
        const int64_t channel = c * group_ * group_ + bin;
        body(region.image * map[1] + channel, r * channels_ * group_ * group_ + channel,
             BinOf(high.start, high.bin, bin / group_, map[2]),
             BinOf(wide.start, wide.bin, bin % group_, map[3]));
      }
    });
  }

  const int64_t channels_;
  const int64_t group_;
};

}  // namespace

void RegisterPSROIPooling(Registry& registry) {
  auto type = RegionPoolingType<PSROIPooling>(
      "PSROIPooling", "x: N x (output_dim group_size group_size) x H x W, the score maps",
      "psroi_pooling_param");
  type.summary = "Region pooling in which each bin has channels of its own (R-FCN).";
  type.formula =
      "y[r, c, i, j] = mean of x[image(r), (c g + i) g + j] over bin (i, j) of region r, g = "
      "group_size";
  type.output_docs = {"y: R x output_dim x group_size x group_size"};
  type.differences = {
      "An image index outside the batch, or a corner that is not a number, is an error."};
  type.origin = "R-FCN";
  const SampleInput map{.shape = {3, 8, 6, 7}};
  const SampleInput whole{.shape = {8, 5}, .low = 0, .high = 2, .integer = true};
  type.samples = {
      {.name = "typical",
       .prototxt = "psroi_pooling_param { spatial_scale: 1.5 output_dim: 2 group_size: 2 }",
       .inputs = {map, whole}},
      {.name = "outside",
       .prototxt = "psroi_pooling_param { spatial_scale: 7 output_dim: 2 group_size: 2 }",
       .inputs = {map, whole}},
      {.name = "one_bin",
       .prototxt = "psroi_pooling_param { spatial_scale: 0.02 output_dim: 8 group_size: 1 }",
       .inputs = {map, whole}},
      {.name = "no_regions",
       .prototxt = "psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 }",
       .inputs = {map, {.shape = {0, 5}}}},
  };
  type.bad_samples = {
      {"psroi_pooling_param { spatial_scale: 1 output_dim: 3 group_size: 2 }",
       {{1, 8, 3, 4}, {2, 5}},
       "output_dim 3 and group_size 2 need"},
      {"psroi_pooling_param { spatial_scale: 1 output_dim: 0 group_size: 2 }",
       {{1, 8, 3, 4}, {2, 5}},
       "output_dim is 0"},
      {"psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: -2 }",
       {{1, 8, 3, 4}, {2, 5}},
       "group_size is -2"},
      {"psroi_pooling_param { spatial_scale: 0 output_dim: 2 group_size: 2 }",
       {{1, 8, 3, 4}, {2, 5}},
       "spatial_scale is 0"},
      {"psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 }",
       {{1, 8, 3, 4}, {5}},
       "the regions have shape 5"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
