// ROIAlign: the mean of the samples in each of pooled_h x pooled_w bins of each region. A sample is
// interpolated between its four neighbouring positions. Nothing is rounded: corners are only
// multiplied by spatial_scale. There are sampling_ratio or else ceil(bin size) samples along each
// side of a bin, at the centres of equal parts. Position i has coordinate i, and a region is at
// least one position long (the older convention), unless `aligned` is set: then it has coordinate
// i + 0.5. A sample more than one position outside the map counts as 0. The gradient goes to the
// four positions; regions get no gradient.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/region_pooling.h"

namespace crema {
namespace {

// Calls body(position, weight) for the four neighbours of each sample of a bin.
template <typename Body>
void ForEachWeight(const AxisSamples& ys, const AxisSamples& xs, int64_t height, int64_t width,
                   Body&& body) {
  const double share = 1 / (static_cast<double>(ys.count) * static_cast<double>(xs.count));
  for (int64_t i = ys.begin; i < ys.end; ++i) {
    const double y = ys.At(i);
    if (!OnMap(y, height)) continue;
    const AxisSample v = SampleAt(y, height);
    for (int64_t j = xs.begin; j < xs.end; ++j) {
      const double x = xs.At(j);
      if (!OnMap(x, width)) continue;
      const AxisSample h = SampleAt(x, width);
      body(v.low * width + h.low, share * (1 - v.high_weight) * (1 - h.high_weight));
      body(v.low * width + h.high, share * (1 - v.high_weight) * h.high_weight);
      body(v.high * width + h.low, share * v.high_weight * (1 - h.high_weight));
      body(v.high * width + h.high, share * v.high_weight * h.high_weight);
    }
  }
}

class ROIAlign final : public RegionPooling {
 public:
  explicit ROIAlign(const LayerParameter& param)
      : RegionPooling(param, param.roi_align_param().spatial_scale(),
                      "roi_align_param.spatial_scale"),
        rows_(param.roi_align_param().pooled_h()),
        columns_(param.roi_align_param().pooled_w()),
        ratio_(param.roi_align_param().sampling_ratio()),
        aligned_(param.roi_align_param().aligned()) {
    if (ratio_ > kMostSamples) {
      FailField(*this, "roi_align_param.sampling_ratio",
                StrCat("gives ", ratio_, " samples along a bin; the most is ", kMostSamples));
    }
    if (rows_ > 0 && columns_ > 0) return;
    FailField(*this, "roi_align_param.pooled_h",
              StrCat("the output is ", rows_, " x ", columns_,
                     " bins; give pooled_h and pooled_w, 1 or more"));
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckInputs(context);
    return InfoOf(context, context.inputs[0].shape[1], rows_, columns_);
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ForEachRegion(args, map[1], [&](int64_t c, int64_t r, const Region& region) {
        const T* plane = x + (region.image * map[1] + c) * map[2] * map[3];
        T* out = y + (r * map[1] + c) * rows_ * columns_;
        ForEachBin(region.box, map, [&](const AxisSamples& ys, const AxisSamples& xs) {
          double sum = 0;
          ForEachWeight(ys, xs, map[2], map[3],
                        [&](int64_t at, double weight) { sum += weight * double{plane[at]}; });
          *out++ = static_cast<T>(sum);
        });
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      std::fill_n(dx, args.input_grads[0].count(), T(0));
      ForEachRegion(args, map[1], [&](int64_t c, int64_t r, const Region& region) {
        T* plane = dx + (region.image * map[1] + c) * map[2] * map[3];
        const T* in = dy + (r * map[1] + c) * rows_ * columns_;
        ForEachBin(region.box, map, [&](const AxisSamples& ys, const AxisSamples& xs) {
          const double gradient = double{*in++};
          ForEachWeight(ys, xs, map[2], map[3], [&](int64_t at, double weight) {
            plane[at] += static_cast<T>(weight * gradient);
          });
        });
      });
    });
  }

 private:
  template <typename Body>
  void ForEachBin(const Box& box, const Shape& map, Body&& body) const {
    const RegionSide high = ExactSide(box.ymin, box.ymax, scale(), rows_, aligned_);
    const RegionSide wide = ExactSide(box.xmin, box.xmax, scale(), columns_, aligned_);
    const bool empty = map[2] == 0 || map[3] == 0;
    for (int64_t i = 0; i < rows_; ++i) {
      const AxisSamples ys = empty ? AxisSamples{.end = 0} : SamplesOf(high, i, map[2], ratio_);
      for (int64_t j = 0; j < columns_; ++j) {
        body(ys, SamplesOf(wide, j, map[3], ratio_));
      }
    }
  }

  static constexpr int64_t kMostSamples = 1000;

  const int64_t rows_;
  const int64_t columns_;
  const int64_t ratio_;
  const bool aligned_;
};

}  // namespace

void RegisterROIAlign(Registry& registry) {
  auto type = RegionPoolingType<ROIAlign>("ROIAlign", "x: N x C x H x W, the feature map",
                                          "roi_align_param");
  type.summary = "Interpolated feature maps of a fixed size for regions of any size (Mask R-CNN).";
  type.formula =
      "y[r, c, i, j] = mean over samples s of bin (i, j) of region r of x[image(r), c] at s, "
      "bilinear";
  type.output_docs = {"y: R x C x pooled_h x pooled_w"};
  type.origin = "Mask R-CNN";
  const SampleInput map{.shape = {3, 2, 6, 7}};
  const SampleInput whole{.shape = {8, 5}, .low = 0, .high = 2, .integer = true};
  type.samples = {
      {.name = "bins",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 3 spatial_scale: 1.7 }",
       .inputs = {map, whole}},
      {.name = "small",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.3 }",
       .inputs = {map, {.shape = {4, 5, 1, 1}, .low = 0, .high = 2, .integer = true}}},
      {.name = "outside",
       .prototxt = "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 9 }",
       .inputs = {map, whole}},
      {.name = "aligned",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 3 spatial_scale: 1.7 aligned: true }",
       .inputs = {map, whole}},
      {.name = "samples",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 2.3 "
                   "sampling_ratio: 1 aligned: true }",
       .inputs = {map, whole}},
      {.name = "no_regions",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 2 }",
       .inputs = {map, {.shape = {0, 5}}}},
      {.name = "empty_map",
       .prototxt = "roi_align_param { pooled_h: 2 pooled_w: 2 }",
       .inputs = {{.shape = {3, 2, 4, 0}}, whole}},
  };
  type.bad_samples = {
      {"", {{1, 2, 3, 4}, {2, 5}}, "0 x 0 bins"},
      {"roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: -1 }",
       {{1, 2, 3, 4}, {2, 5}},
       "spatial_scale is -1"},
      {"roi_align_param { pooled_h: 2 pooled_w: 2 sampling_ratio: 2000 }",
       {{1, 2, 3, 4}, {2, 5}},
       "2000 samples"},
      {"roi_align_param { pooled_h: 2 pooled_w: 2 }",
       {{1, 2, 3, 4}, {2, 4}},
       "the regions have shape 2x4"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
