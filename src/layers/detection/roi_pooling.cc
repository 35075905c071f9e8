// ROIPooling: the maximum of each of pooled_h x pooled_w bins of each region, for each channel; an
// empty bin gives 0. Corners times spatial_scale are rounded to whole positions, the last position
// belongs to the region, and a region is at least one position long. The gradient goes to the
// position of the maximum; regions get no gradient.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/region_pooling.h"

namespace crema {
namespace {

struct Bins {
  int64_t h = 0;
  int64_t w = 0;
  int64_t count() const { return h * w; }
};

class ROIPooling final : public RegionPooling {
 public:
  explicit ROIPooling(const LayerParameter& param)
      : RegionPooling(param, param.roi_pooling_param().spatial_scale(),
                      "roi_pooling_param.spatial_scale"),
        bins_(ReadBins()) {}

  LayerInfo Infer(const InferContext& context) const override {
    CheckInputs(context);
    LayerInfo info = InfoOf(context, context.inputs[0].shape[1], bins_.h, bins_.w);
    info.moves_only = true;
    // Index of the maximum in its plane; -1 for an empty bin.
    info.saved = {{info.outputs[0].shape, DType::kI32}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    const int64_t channels = map[1];
    const int64_t plane = map[2] * map[3];
    int32_t* const taken = args.saved[0].empty() ? nullptr : args.saved[0].data<int32_t>();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ForEachRegion(args, channels, [&](int64_t c, int64_t r, const Region& region) {
        const int64_t at = (r * channels + c) * bins_.count();
        PoolRegion(region.box, map, x + (region.image * channels + c) * plane, y + at,
                   taken == nullptr ? nullptr : taken + at);
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& map = args.inputs[0].shape();
    const int64_t channels = map[1];
    const int64_t plane = map[2] * map[3];
    const int32_t* taken = args.saved[0].data<int32_t>();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      std::fill_n(dx, args.input_grads[0].count(), T(0));
      ForEachRegion(args, channels, [&](int64_t c, int64_t r, const Region& region) {
        const int64_t at = (r * channels + c) * bins_.count();
        T* own = dx + (region.image * channels + c) * plane;
        for (int64_t b = at; b < at + bins_.count(); ++b) {
          if (taken[b] >= 0) own[taken[b]] += dy[b];
        }
      });
    });
  }

 private:
  Bins ReadBins() const {
    const ROIPoolingParameter& p = param().roi_pooling_param();
    const int sizes = p.pooled_size_size();
    if (sizes > 2 || (sizes > 0 && (p.has_pooled_h() || p.has_pooled_w()))) {
      FailField(*this, "roi_pooling_param.pooled_size",
                "give pooled_size once or twice, or pooled_h and pooled_w");
    }
    const Bins bins = sizes > 0 ? Bins{p.pooled_size(0), p.pooled_size(sizes - 1)}
                                : Bins{p.pooled_h(), p.pooled_w()};
    if (bins.h > 0 && bins.w > 0) return bins;
    FailField(*this, "roi_pooling_param.pooled_h",
              StrCat("the output is ", bins.h, " x ", bins.w,
                     " bins; give pooled_h and pooled_w, 1 or more"));
  }

  template <typename T>
  void PoolRegion(const Box& box, const Shape& map, const T* x, T* y, int32_t* taken) const {
    const RegionSide high = WholeSide(box.ymin, box.ymax, scale(), bins_.h);
    const RegionSide wide = WholeSide(box.xmin, box.xmax, scale(), bins_.w);
    for (int64_t h = 0; h < bins_.h; ++h) {
      const BinRange rows = BinOf(high.start, high.bin, h, map[2]);
      for (int64_t w = 0; w < bins_.w; ++w) {
        const BinRange columns = BinOf(wide.start, wide.bin, w, map[3]);
        int64_t best = -1;
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const int64_t at = i * map[3] + j;
            if (best < 0 || x[at] > x[best]) best = at;
          }
        }
        *y++ = best < 0 ? T(0) : x[best];
        if (taken != nullptr) *taken++ = static_cast<int32_t>(best);
      }
    }
  }

  const Bins bins_;
};

}  // namespace

void RegisterROIPooling(Registry& registry) {
  auto type = RegionPoolingType<ROIPooling>("ROIPooling", "x: N x C x H x W, the feature map",
                                            "roi_pooling_param");
  type.summary = "Feature maps of a fixed size for regions of any size (Fast R-CNN).";
  type.formula = "y[r, c, i, j] = max of x[image(r), c] over bin (i, j) of region r";
  type.output_docs = {"y: R x C x pooled_h x pooled_w"};
  type.differences = {
      "An image index outside the batch, or a corner that is not a number, is an error; the forks "
      "read other memory.",
      "pooled_size (IntelCaffe) gives both sides, or height and width."};
  type.origin = "Fast R-CNN";
  const SampleInput map{.shape = {3, 2, 6, 7}, .distinct = true};
  const SampleInput whole{.shape = {8, 5}, .low = 0, .high = 2, .integer = true};
  type.samples = {
      {.name = "bins",
       .prototxt = "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 2 }",
       .inputs = {map, whole}},
      {.name = "one_size",
       .prototxt = "roi_pooling_param { pooled_size: 3 }",
       .inputs = {map, whole}},
      {.name = "two_sizes",
       .prototxt = "roi_pooling_param { pooled_size: 1 pooled_size: 2 spatial_scale: 3 }",
       .inputs = {map, {.shape = {4, 5, 1, 1}, .low = 0, .high = 2, .integer = true}}},
      {.name = "outside",
       .prototxt = "roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 30 }",
       .inputs = {map, whole}},
      {.name = "no_regions",
       .prototxt = "roi_pooling_param { pooled_h: 2 pooled_w: 2 }",
       .inputs = {map, {.shape = {0, 5}}}},
      {.name = "empty_map",
       .prototxt = "roi_pooling_param { pooled_h: 2 pooled_w: 2 }",
       .inputs = {{.shape = {3, 2, 0, 4}}, whole}},
  };
  type.bad_samples = {
      {"", {{1, 2, 3, 4}, {2, 5}}, "0 x 0 bins"},
      {"roi_pooling_param { pooled_size: 2 pooled_h: 2 }",
       {{1, 2, 3, 4}, {2, 5}},
       "give pooled_size once or twice"},
      {"roi_pooling_param { pooled_size: 2 spatial_scale: 0 }",
       {{1, 2, 3, 4}, {2, 5}},
       "spatial_scale is 0"},
      {"roi_pooling_param { pooled_size: 2 }",
       {{1, 2, 3, 4}, {2, 4}},
       "the regions have shape 2x4"},
      {"roi_pooling_param { pooled_size: 2 }",
       {{1, 2, 3}, {2, 5}},
       "the feature map has shape 1x2x3"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
