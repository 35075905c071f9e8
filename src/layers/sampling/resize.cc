// Resize: nearest, linear or cubic resizing of axes, as ONNX's Resize. With the scale s of an axis,
// which is its output size over its input size, or the given factor itself, output element o is at
//   HALF_PIXEL            (o + 1/2) / s - 1/2: elements are areas
//   PYTORCH_HALF_PIXEL    the same; 0 if the output has one element
//   ALIGN_CORNERS         o (in - 1) / (s in - 1): the corner elements lie on each other
//   ASYMMETRIC            o / s
//   HALF_PIXEL_SYMMETRIC  HALF_PIXEL plus in / 2 (1 - out / (s in)): rounding of the size is shared
//   TF_CROP_AND_RESIZE    start (in - 1) + o (end - start) (in - 1) / (s in - 1)
// Border elements are repeated beyond the border, or have no weight (exclude_outside).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/layer_number.h"
#include "layers/sampling/resample.h"

namespace crema {
namespace {

using Parameter = ResizeLayerParameter;

// Returns the number that the shortest decimal of a factor names: 0.6, not 0.60000002.
double Decimal(float factor) {
  std::array<char, 64> text{};
  char* const end = text.data() + text.size();
  const auto [written, error] = std::to_chars(text.data(), end, factor);
  double value = factor;
  if (error == std::errc()) std::from_chars(text.data(), written, value);
  return value;
}

// The new size of an axis, and its factor if that is given.
struct Target {
  int64_t out = 0;
  double scale = 0;  // 0: the quotient of the sizes
};

class Resize final : public ResampleLayer {
 public:
  explicit Resize(const LayerParameter& param) : ResampleLayer(param) {
    const Parameter& p = Resizing();
    if (HasList()) {
      CheckLists();
    } else {
      if (p.axes_size() > 0) {
        FailField(*this, "resize_param.axes", "axes are for size or scale; give one of them");
      }
      Check(p.height() > 0, p.height_scale(), "height");
      Check(p.width() > 0, p.width_scale(), "width");
    }
    if (p.aspect_ratio() != Parameter::STRETCH && p.size_size() == 0) {
      FailField(*this, "resize_param.aspect_ratio", "aspect_ratio is for size; give size");
    }
    if (p.align_corners() && p.has_coordinates() && p.coordinates() != Parameter::ALIGN_CORNERS) {
      FailField(*this, "resize_param.align_corners",
                "align_corners and coordinates disagree; give coordinates alone");
    }
    FiniteNumber(*this, p.cubic_coeff_a(), "resize_param.cubic_coeff_a");
    FiniteNumber(*this, p.extrapolation_value(), "resize_param.extrapolation_value");
    CheckRoi();
  }

 private:
  const Parameter& Resizing() const { return param().resize_param(); }
  bool HasList() const { return Resizing().size_size() > 0 || Resizing().scale_size() > 0; }
  int ListSize() const { return std::max(Resizing().size_size(), Resizing().scale_size()); }

  Parameter::Coordinates Coordinates() const {
    return Resizing().align_corners() ? Parameter::ALIGN_CORNERS : Resizing().coordinates();
  }

  void Check(bool has_size, float scale, const std::string& name) const {
    CheckScale(scale, name + "_scale", true);
    if (has_size == (scale > 0)) {
      FailField(*this, "resize_param." + name,
                has_size
                    ? StrCat("give ", name, " or ", name, "_scale, not both")
                    : StrCat("the output size is missing: give ", name, " or ", name, "_scale"));
    }
  }

  void CheckScale(float scale, const std::string& name, bool zero) const {
    if ((scale > 0 || (zero && scale == 0)) && std::isfinite(scale)) return;
    FailField(*this, "resize_param." + name, StrCat(name, " must be above 0, but it is ", scale));
  }

  void CheckLists() const {
    const Parameter& p = Resizing();
    if (p.height() > 0 || p.width() > 0 || p.height_scale() != 0 || p.width_scale() != 0) {
      FailField(*this, "resize_param.height",
                "size and scale stand in place of height, width and their scales; give one kind");
    }
    if (p.size_size() > 0 && p.scale_size() > 0) {
      FailField(*this, "resize_param.size", "give size or scale, not both");
    }
    if (p.axes_size() > 0 && p.axes_size() != ListSize()) {
      FailField(*this, "resize_param.axes",
                StrCat("there are ", p.axes_size(), " axes, but ", ListSize(),
                       " sizes or scales; give as many"));
    }
    for (const float scale : p.scale()) CheckScale(scale, "scale", false);
    for (const int64_t size : p.size()) {
      if (size >= 1 && size < int64_t{1} << 31) continue;
      FailField(*this, "resize_param.size", StrCat("size must be 1 to 2^31-1, but it is ", size));
    }
  }

  void CheckRoi() const {
    const Parameter& p = Resizing();
    const bool crops = Coordinates() == Parameter::TF_CROP_AND_RESIZE;
    const int axes = HasList() ? ListSize() : 2;
    if (p.roi_size() != (crops ? 2 * axes : 0)) {
      FailField(*this, "resize_param.roi",
                crops ? StrCat("roi needs the starts and ends of ", axes, " axes, but it has ",
                               p.roi_size(), " numbers")
                      : std::string("roi is for TF_CROP_AND_RESIZE; leave it out"));
    }
    for (const float place : p.roi()) FiniteNumber(*this, place, "resize_param.roi");
  }

  // Returns the axes that have a size or a factor.
  AxisList<int> Axes(const Shape& input) const {
    const Parameter& p = Resizing();
    if (!HasList()) return {2, 3};
    if (ListSize() > input.axes()) {
      FailInputs(*this,
                 StrCat("there are ", ListSize(), " sizes or scales, but the input of shape ",
                        ToString(input), " has ", input.axes(), " axes"));
    }
    AxisList<int> axes;
    for (int k = 0; k < ListSize(); ++k) {
      const int axis = p.axes_size() == 0 ? input.axes() - ListSize() + k
                                          : LayerAxis(*this, input, p.axes(k), "resize_param.axes");
      if (std::ranges::find(axes, axis) != axes.end()) {
        FailField(*this, "resize_param.axes",
                  StrCat("axis ", axis, " is listed twice; give each axis once"));
      }
      axes.push_back(axis);
    }
    return axes;
  }

  int64_t Scaled(const Shape& input, int axis, double scale) const {
    // Tolerates the rounding of factors to f32: 10 x 1.1f must be 11.
    const double scaled = std::floor(static_cast<double>(input[axis]) * scale * (1 + 1e-7));
    if (scaled >= 1 && scaled < 1LL << 31) return static_cast<int64_t>(scaled);
    FailInputs(*this, StrCat("axis ", axis, " of the input of shape ", ToString(input), " times ",
                             scale, " is not a possible size"));
  }

  // Returns the one scale of all axes that keeps the ratio of their sizes.
  double CommonScale(const Shape& input, const AxisList<int>& axes) const {
    const bool smaller = Resizing().aspect_ratio() == Parameter::NOT_LARGER;
    double common = 0;
    for (size_t k = 0; k < axes.size(); ++k) {
      const double scale = static_cast<double>(Resizing().size(static_cast<int>(k))) /
                           static_cast<double>(input[axes[k]]);
      common = k == 0 ? scale : smaller ? std::min(common, scale) : std::max(common, scale);
    }
    return common;
  }

  AxisList<Target> Targets(const Shape& input, const AxisList<int>& axes) const {
    const Parameter& p = Resizing();
    if (!HasList()) {
      const auto old = [&](int axis, uint32_t size, float scale) {
        return Target{.out = size > 0 ? int64_t{size} : Scaled(input, axis, scale)};
      };
      return {old(2, p.height(), p.height_scale()), old(3, p.width(), p.width_scale())};
    }
    AxisList<Target> targets;
    const bool stretch = p.aspect_ratio() == Parameter::STRETCH;
    const double common = stretch ? 0 : CommonScale(input, axes);
    for (size_t k = 0; k < axes.size(); ++k) {
      const int at = static_cast<int>(k);
      if (p.scale_size() > 0) {
        const double scale = Decimal(p.scale(at));
        targets.push_back({.out = Scaled(input, axes[k], scale), .scale = scale});
      } else if (stretch) {
        targets.push_back({.out = p.size(at)});
      } else {
        const double scaled = common * static_cast<double>(input[axes[k]]);
        targets.push_back(
            {.out = Scaled(input, axes[k],
                           std::floor(scaled + 0.5) / static_cast<double>(input[axes[k]])),
             .scale = common});
      }
    }
    return targets;
  }

  // Returns the axis with the positions of its outputs. `k` is its number among the given ones.
  SampledAxis Placed(int64_t size, const Target& target, int k) const {
    SampledAxis axis = SampledAxis::Unchanged(size);
    axis.out = target.out;
    const auto in = static_cast<double>(size), out = static_cast<double>(target.out);
    const bool given = target.scale > 0;
    const double wide = given ? target.scale * in : out;  // the size before it is rounded
    if (given) {
      axis.AlignAreas(1, target.scale);
    } else {
      axis.AlignAreas(in, out);
    }
    if (Resizing().antialias()) axis.narrowing = std::min(1.0, wide / in);
    const Parameter::Coordinates coordinates = Coordinates();
    if (coordinates == Parameter::ASYMMETRIC) axis.before = axis.after = 0;
    if (coordinates == Parameter::PYTORCH_HALF_PIXEL && target.out == 1) axis.AlignCorners(1);
    if (coordinates == Parameter::HALF_PIXEL_SYMMETRIC) axis.after += in / 2 * (1 - out / wide);
    if (coordinates == Parameter::ALIGN_CORNERS) axis.AlignCorners(wide);
    if (coordinates == Parameter::TF_CROP_AND_RESIZE) {
      const double start = Resizing().roi(k);
      const double end = Resizing().roi(k + Resizing().roi_size() / 2);
      axis.AlignCorners(wide);
      axis.num *= end - start;
      axis.after = (target.out == 1 ? (start + end) / 2 : start) * (in - 1);
      axis.cuts = true;
    }
    return axis;
  }

  ResamplePlan Plan(const Shape& input, const Shape*) const override {
    if (!HasList()) CheckPlanes(input);
    const AxisList<int> axes = Axes(input);
    for (const int axis : axes) {
      if (input[axis] > 0) continue;
      FailInputs(*this, StrCat("axis ", axis, " of the input of shape ", ToString(input),
                               " has no elements and cannot be resized"));
    }
    const AxisList<Target> targets = Targets(input, axes);
    AxisList<SampledAxis> all;
    for (const int64_t size : input.dims()) all.push_back(SampledAxis::Unchanged(size));
    ResamplePlan plan;
    for (size_t k = 0; k < axes.size(); ++k) {
      const bool kept = targets[k].scale == 1 && Coordinates() != Parameter::TF_CROP_AND_RESIZE;
      if (kept) continue;
      const auto axis = static_cast<size_t>(axes[k]);
      all[axis] = Placed(input[axes[k]], targets[k], static_cast<int>(k));
      plan.mixes_samples = plan.mixes_samples || axis == 0;
    }
    AxisList<int64_t> dims;
    for (const SampledAxis& axis : all) dims.push_back(axis.out);
    plan.output = Shape(std::span(dims.data(), dims.size()));
    Fill(all, &plan.sampling);
    plan.axes = all;
    return plan;
  }

  // Sets the axes from the first resampled one on: those between are merged.
  void Fill(const AxisList<SampledAxis>& all, Sampling* sampling) const {
    AxisList<SampledAxis> merged;
    for (const SampledAxis& axis : all) {
      const bool first = merged.empty() && !axis.resampled;  // counts planes
      if (first || (!axis.resampled && axis.in == 1)) continue;
      if (axis.resampled || merged.back().resampled) {
        merged.push_back(axis);
      } else {
        merged.back() = SampledAxis::Unchanged(merged.back().in * axis.in);
      }
    }
    if (merged.size() > size_t{Sampling::kAxes}) {
      FailField(*this, "resize_param.axes",
                StrCat("too many axes are resized with others between or after them; put two ",
                       "Resize layers, or move the axes to the end with Permute"));
    }
    const Parameter& p = Resizing();
    sampling->interpolation = p.interpolation() == Parameter::NEAREST  ? SamplingMethod::kNearest
                              : p.interpolation() == Parameter::LINEAR ? SamplingMethod::kLinear
                                                                       : SamplingMethod::kCubic;
    constexpr std::array<NearestMode, 4> kModes = {NearestMode::kPreferCeil,
                                                   NearestMode::kPreferFloor, NearestMode::kFloor,
                                                   NearestMode::kCeil};
    sampling->nearest = kModes[static_cast<size_t>(p.nearest_mode())];
    sampling->cubic_a = p.cubic_coeff_a();
    sampling->exclude_outside = p.exclude_outside();
    sampling->extrapolation = p.extrapolation_value();
    std::ranges::copy(merged, std::end(sampling->axes) - merged.size());
    sampling->SetTaps();
  }
};

LayerSample Sample(const char* name, const std::string& fields,
                   std::vector<int64_t> shape = {2, 2, 4, 5}) {
  LayerSample sample;
  sample.name = name;
  sample.prototxt = "resize_param { " + fields + " }";
  sample.inputs = {{.shape = std::move(shape)}};
  return sample;
}

}  // namespace

void RegisterResize(Registry& registry) {
  LayerType type;
  type.name = "Resize";
  type.category = "sampling";
  type.summary = "Resizes axes to a size or by a factor: nearest, linear or cubic.";
  type.formula =
      "y[.., o, ..] = x interpolated along each resized axis, of the sizes in and out, at (o + "
      "1/2) in "
      "/ out - 1/2, or where `coordinates` says. All of this is Resize of ONNX, with `scale` or "
      "`size`; there round_prefer_floor is the default";
  type.input_docs = {"x: N x C x H x W; with `size` or `scale` any shape"};
  type.output_docs = {"y: the shape of x with the new sizes"};
  type.origin = "community";
  type.differences = {
      "Several layers of forks have this name, each with its own parameters; this is one layer for "
      "all of them."};
  type.param_fields = {"resize_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Resize>(p); };
  type.samples = {
      Sample("linear", "height: 7 width: 8"),
      Sample("linear_smaller", "height: 2 width: 3"),
      Sample("linear_corners", "height: 7 width: 3 align_corners: true"),
      Sample("nearest", "height: 7 width: 3 interpolation: NEAREST"),
      Sample("nearest_corners", "height: 3 width: 8 interpolation: NEAREST align_corners: true"),
      Sample("cubic", "height: 7 width: 8 interpolation: CUBIC"),
      Sample("cubic_corners", "height: 3 width: 9 interpolation: CUBIC align_corners: true"),
      Sample("factors", "height_scale: 1.5 width_scale: 0.5"),
      Sample("size_and_factor", "height: 3 width_scale: 2 interpolation: CUBIC"),
      Sample("one_pixel", "height: 1 width: 1 align_corners: true"),
      Sample("from_one_pixel", "height: 2 width: 3 interpolation: CUBIC", {1, 2, 1, 1}),
      Sample("empty_batch", "height: 2 width: 3", {0, 2, 4, 4}),
      Sample("one_axis", "size: 7", {2, 3, 4}),
      Sample("volume", "scale: 1.5 scale: 2 scale: 0.5", {1, 2, 3, 2, 5}),
      Sample("volume_cubic", "size: 4 size: 3 size: 5 interpolation: CUBIC", {1, 2, 3, 2, 4}),
      Sample("channels_last", "axes: 1 axes: 2 size: 5 size: 7", {2, 3, 4, 3}),
      Sample("volume_channels_last", "axes: 1 axes: 2 axes: 3 scale: 2 scale: 1.5 scale: 2",
             {2, 2, 3, 2, 3}),
      Sample("axes_apart", "axes: -1 axes: 1 size: 5 size: 3", {2, 2, 3, 4}),
      Sample("all_axes", "scale: 1 scale: 1 scale: 1.7 scale: 2.2"),
      Sample("batch", "axes: 0 size: 5", {2, 3}),
      Sample("pytorch", "size: 1 size: 9 coordinates: PYTORCH_HALF_PIXEL"),
      Sample("asymmetric", "scale: 1.7 scale: 0.6 coordinates: ASYMMETRIC"),
      Sample("symmetric", "scale: 0.6 scale: 1.3 coordinates: HALF_PIXEL_SYMMETRIC"),
      Sample("crop",
             "size: 3 size: 6 coordinates: TF_CROP_AND_RESIZE roi: 0.4 roi: 0.6 roi: 1.2 "
             "roi: 0.1 extrapolation_value: 10"),
      Sample("crop_nearest",
             "size: 3 size: 6 interpolation: NEAREST roi: -0.4 roi: 0.6 roi: 1.2 "
             "roi: 1 coordinates: TF_CROP_AND_RESIZE"),
      Sample("crop_rows",
             "size: 5 size: 3 coordinates: TF_CROP_AND_RESIZE roi: -0.5 roi: 0 roi: 2 "
             "roi: 1 interpolation: CUBIC"),
      Sample("prefer_floor",
             "size: 2 size: 10 interpolation: NEAREST nearest_mode: "
             "ROUND_PREFER_FLOOR coordinates: ASYMMETRIC"),
      Sample("floor", "scale: 2.6 scale: 0.6 interpolation: NEAREST nearest_mode: FLOOR"),
      Sample("ceil", "scale: 2.6 scale: 0.6 interpolation: NEAREST nearest_mode: CEIL"),
      Sample("exclude_outside",
             "size: 7 size: 3 interpolation: CUBIC exclude_outside: true "
             "cubic_coeff_a: -0.5"),
      Sample("antialias", "size: 3 size: 8 antialias: true", {2, 2, 9, 5}),
      Sample("antialias_cubic",
             "scale: 0.3 scale: 0.4 antialias: true interpolation: CUBIC "
             "exclude_outside: true",
             {1, 2, 10, 11}),
      Sample("not_larger", "size: 9 size: 7 aspect_ratio: NOT_LARGER"),
      Sample("not_smaller", "size: 9 size: 7 aspect_ratio: NOT_SMALLER"),
  };
  const auto bad = [](const char* fields, const char* expect,
                      std::vector<int64_t> shape = {1, 2, 4, 4}) {
    return BadSample{std::string("resize_param { ") + fields + " }", {std::move(shape)}, expect};
  };
  type.bad_samples = {
      bad("height: 2", "give width or width_scale"),
      bad("width: 2", "give height or height_scale"),
      bad("height: 2 height_scale: 2 width: 2", "not both"),
      bad("height_scale: -1 width: 2", "it is -1"),
      bad("height_scale: nan width: 2", "it is nan"),
      bad("height_scale: 0.1 width: 2", "not a possible size"),
      bad("height: 2 width: 2", "4 axes", {2, 4, 4}),
      bad("height: 2 width: 2", "without pixels", {1, 2, 0, 4}),
      bad("height: 2 size: 2", "give one kind"),
      bad("scale: 2 size: 2", "not both"),
      bad("axes: 2 height: 2 width: 2", "give one of them"),
      bad("axes: 2 size: 2 size: 2", "1 axes, but 2 sizes"),
      bad("axes: 4 size: 2", "axis 4 is outside"),
      bad("axes: 1 axes: -3 size: 2 size: 2", "axis 1 is listed twice"),
      bad("size: 2 size: 2 size: 2", "has 2 axes", {2, 4}),
      bad("size: 0", "it is 0"),
      bad("size: 2147483648", "it is 2147483648"),
      bad("scale: 0", "it is 0"),
      bad("scale: inf", "it is inf"),
      bad("size: 2", "has no elements", {2, 0}),
      bad("scale: 2 aspect_ratio: NOT_LARGER", "aspect_ratio is for size"),
      bad("size: 1 size: 40 aspect_ratio: NOT_LARGER", "not a possible size", {1, 2, 9, 4}),
      bad("size: 2 align_corners: true coordinates: ASYMMETRIC", "disagree"),
      bad("size: 2 cubic_coeff_a: nan", "expected a finite number"),
      bad("size: 2 extrapolation_value: inf", "expected a finite number"),
      bad("size: 2 roi: 0 roi: 1", "roi is for"),
      bad("size: 2 coordinates: TF_CROP_AND_RESIZE roi: 1", "of 1 axes, but it has 1"),
      bad("size: 2 coordinates: TF_CROP_AND_RESIZE roi: 1 roi: nan", "expected a finite number"),
      bad("axes: 0 axes: 2 axes: 4 size: 2 size: 2 size: 2", "too many axes", {2, 2, 2, 2, 2}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
