// Resize: nearest, linear or cubic resizing of planes. Either corners are aligned, or pixels are
// areas, so that output pixel o is at (o + 1/2) in / out - 1/2. Border pixels are repeated beyond
// the border.
#include <cmath>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/sampling/resample.h"

namespace crema {
namespace {

class Resize final : public ResampleLayer {
 public:
  explicit Resize(const LayerParameter& param) : ResampleLayer(param) {
    const ResizeLayerParameter& p = param.resize_param();
    Check(p.height() > 0, p.height_scale(), "height");
    Check(p.width() > 0, p.width_scale(), "width");
  }

 private:
  void Check(bool has_size, float scale, const std::string& name) const {
    if (!(scale >= 0) || !std::isfinite(scale)) {
      FailField(*this, "resize_param." + name + "_scale",
                StrCat(name, "_scale must be above 0, but it is ", scale));
    }
    if (has_size == (scale > 0)) {
      FailField(*this, "resize_param." + name,
                has_size
                    ? StrCat("give ", name, " or ", name, "_scale, not both")
                    : StrCat("the output size is missing: give ", name, " or ", name, "_scale"));
    }
  }

  int64_t Output(const Shape& input, int axis, uint32_t size, double scale) const {
    if (size > 0) return size;
    // Tolerates the rounding of factors to f32: 10 x 1.1f must be 11.
    const double scaled = std::floor(static_cast<double>(input[axis]) * scale * (1 + 1e-7));
    if (scaled >= 1 && scaled < 1LL << 31) return static_cast<int64_t>(scaled);
    FailInputs(*this, StrCat("axis ", axis, " of the input of shape ", ToString(input), " times ",
                             scale, " is no possible size"));
  }

  Sampling Plan(const Shape& input, const Shape*) const override {
    const ResizeLayerParameter& p = param().resize_param();
    Sampling sampling;
    sampling.h = {.in = input[2], .length = input[2]};
    sampling.w = {.in = input[3], .length = input[3]};
    sampling.h.out = Output(input, 2, p.height(), p.height_scale());
    sampling.w.out = Output(input, 3, p.width(), p.width_scale());
    sampling.align_corners = p.align_corners();
    sampling.interpolation =
        p.interpolation() == ResizeLayerParameter::NEAREST  ? Interpolation::kNearest
        : p.interpolation() == ResizeLayerParameter::LINEAR ? Interpolation::kLinear
                                                            : Interpolation::kCubic;
    return sampling;
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
  type.summary = "Resizes planes to a size or by a factor: nearest, linear or cubic.";
  type.formula =
      "y[n, c, i, j] = x interpolated at ((i + 1/2) H / H' - 1/2, (j + 1/2) W / W' - 1/2), or with "
      "align_corners at (i (H - 1) / (H' - 1), j (W - 1) / (W' - 1))";
  type.input_docs = {"x: N x C x H x W"};
  type.output_docs = {"y: N x C x H' x W'"};
  type.origin = "community";
  type.differences = {
      "Several layers of forks have this name and parameters of their own; this is "
      "one meaning for all of them."};
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
      bad("height_scale: 0.1 width: 2", "no possible size"),
      bad("height: 2 width: 2", "4 axes", {2, 4, 4}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
