// Interp: bilinear resizing with aligned corners, after cropping a border (negative padding).
// With the cropped input h x w, the output size is given by the first of these that is set:
//   a second bottom: its height and width
//   shrink_factor f alone: (h - 1) / f + 1, and zoom_factor f alone: h + (h - 1) (f - 1)
//   height and width
//   both factors: shrunk, then zoomed
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/sampling/resample.h"

namespace crema {
namespace {

class Interp final : public ResampleLayer {
 public:
  explicit Interp(const LayerParameter& param) : ResampleLayer(param) {
    const InterpParameter& p = param.interp_param();
    CheckAbove0(p.has_zoom_factor(), p.zoom_factor(), "zoom_factor");
    CheckAbove0(p.has_shrink_factor(), p.shrink_factor(), "shrink_factor");
    if (p.height() < 0 || p.width() < 0) {
      FailField(*this, p.height() < 0 ? "interp_param.height" : "interp_param.width",
                StrCat("height and width must be above 0, but they are ", p.height(), " and ",
                       p.width()));
    }
    if (p.pad_beg() > 0 || p.pad_end() > 0) {
      FailField(*this, p.pad_beg() > 0 ? "interp_param.pad_beg" : "interp_param.pad_end",
                "padding is not possible here, only cutting off: give 0 or a negative number (Pad "
                "pads)");
    }
    if (p.interp_type() != "bilinear" && p.interp_type() != "nearest") {
      FailField(*this, "interp_param.interp_type",
                StrCat("'", p.interp_type(), "' is not known; give bilinear or nearest"));
    }
  }

 private:
  void CheckAbove0(bool given, int value, const char* name) const {
    if (!given || value > 0) return;
    FailField(*this, std::string("interp_param.") + name,
              StrCat(name, " must be above 0, but it is ", value));
  }

  ResamplePlan Plan(const Shape& input, const Shape* reference) const override {
    const InterpParameter& p = param().interp_param();
    CheckPlanes(input);
    ResamplePlan plan;
    if (p.interp_type() == "nearest") plan.sampling.interpolation = SamplingMethod::kNearest;
    SampledAxis &h = plan.sampling.axes[2], &w = plan.sampling.axes[3];
    h = Cut(input, 2);
    w = Cut(input, 3);
    h.out = Output(h.length, p.height(), reference, 2);
    w.out = Output(w.length, p.width(), reference, 3);
    for (SampledAxis* axis : {&h, &w}) axis->AlignCorners(static_cast<double>(axis->out));
    plan.axes = {SampledAxis::Unchanged(input[0]), SampledAxis::Unchanged(input[1]), h, w};
    plan.sampling.SetTaps();
    plan.output = Shape{input[0], input[1], h.out, w.out};
    return plan;
  }

  SampledAxis Cut(const Shape& input, int axis) const {
    const InterpParameter& p = param().interp_param();
    SampledAxis cut{.in = input[axis], .start = -int64_t{p.pad_beg()}};
    cut.length = cut.in + p.pad_beg() + p.pad_end();
    if (cut.length < 1) {
      FailInputs(*this, StrCat("nothing is left of the input of shape ", ToString(input), " when ",
                               -int64_t{p.pad_beg()}, " and ", -int64_t{p.pad_end()},
                               " rows and columns are cut off (pad_beg, pad_end)"));
    }
    return cut;
  }

  int64_t Output(int64_t length, int64_t size, const Shape* reference, int axis) const {
    const InterpParameter& p = param().interp_param();
    if (reference != nullptr) return OfReference(*reference, axis);
    const auto shrunk = [&](int64_t in) { return (in - 1) / p.shrink_factor() + 1; };
    const auto zoomed = [&](int64_t in) { return in + (in - 1) * (p.zoom_factor() - 1); };
    if (p.has_shrink_factor() != p.has_zoom_factor()) {
      return p.has_shrink_factor() ? shrunk(length) : zoomed(length);
    }
    if (p.height() > 0 && p.width() > 0) return size;
    if (p.has_shrink_factor()) return zoomed(shrunk(length));
    FailField(*this, "interp_param.height",
              "the output size is missing: give height and width, a zoom_factor, a shrink_factor, "
              "or a second bottom of that size");
  }

  int64_t OfReference(const Shape& reference, int axis) const {
    const InterpParameter& p = param().interp_param();
    if (p.has_shrink_factor() || p.has_zoom_factor() || p.height() > 0 || p.width() > 0) {
      FailField(*this, "interp_param",
                "the second bottom gives the output size; leave out height, width, zoom_factor and "
                "shrink_factor");
    }
    if (reference.axes() != 4 || reference[2] < 1 || reference[3] < 1) {
      FailInputs(*this, StrCat("the second bottom, which gives the output size, needs 4 axes and "
                               "pixels, but it is ",
                               ToString(reference)));
    }
    return reference[axis];
  }
};

LayerSample Sample(const char* name, const std::string& fields, std::vector<int64_t> shape) {
  LayerSample sample;
  sample.name = name;
  sample.prototxt = "interp_param { " + fields + " }";
  sample.inputs = {{.shape = std::move(shape)}};
  return sample;
}

}  // namespace

void RegisterInterp(Registry& registry) {
  LayerType type;
  type.name = "Interp";
  type.category = "sampling";
  type.summary = "Resizes planes bilinearly, corner on corner, by a factor or to a size.";
  type.formula =
      "y[n, c, i, j] = x[n, c, i (h - 1) / (h' - 1), j (w - 1) / (w' - 1)], interpolated between "
      "the four nearest pixels; h x w is the cut input, h' x w' the output";
  type.input_docs = {"x: N x C x H x W",
                     "reference (optional): its height and width are those of y"};
  type.output_docs = {"y: N x C x h' x w'"};
  type.origin = "DeepLab";
  type.differences = {"The reference of batches larger than 1 may have any batch size."};
  type.param_fields = {"interp_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Interp>(p); };
  const std::vector<int64_t> shape = {2, 2, 4, 5};
  type.samples = {
      Sample("zoom", "zoom_factor: 2", shape),
      Sample("shrink", "shrink_factor: 2", {1, 2, 7, 9}),
      Sample("both_factors", "shrink_factor: 3 zoom_factor: 2", {1, 2, 8, 7}),
      Sample("size", "height: 6 width: 3", shape),
      Sample("one_pixel", "height: 1 width: 1", shape),
      Sample("from_one_pixel", "height: 3 width: 2", {2, 2, 1, 1}),
      Sample("cut", "zoom_factor: 3 pad_beg: -1 pad_end: -1", {1, 2, 5, 6}),
      Sample("nearest", "height: 7 width: 3 interp_type: 'nearest'", shape),
      Sample("large", "zoom_factor: 4", {1, 3, 20, 21}),
      Sample("empty_batch", "zoom_factor: 2", {0, 2, 3, 3}),
      {.name = "reference",
       .prototxt = "",
       .inputs = {{.shape = {2, 2, 3, 4}}, {.shape = {1, 5, 5, 7}}}},
  };
  const auto bad = [](const char* fields, const char* expect) {
    return BadSample{std::string("interp_param { ") + fields + " }", {{1, 2, 4, 4}}, expect};
  };
  type.bad_samples = {
      bad("", "output size is missing"),
      bad("height: 3", "output size is missing"),
      bad("zoom_factor: 0", "it is 0"),
      bad("shrink_factor: -1", "it is -1"),
      bad("height: -3 width: 2", "above 0"),
      bad("zoom_factor: 2 pad_beg: 1", "only cutting off"),
      bad("zoom_factor: 2 pad_beg: -2 pad_end: -2", "nothing is left"),
      bad("zoom_factor: 2 interp_type: 'sinc'", "'sinc' is not known"),
      {"interp_param { zoom_factor: 2 }", {{2, 4, 4}}, "4 axes"},
      {"interp_param { zoom_factor: 2 }", {{2, 1, 0, 4}}, "without pixels"},
      {"interp_param { zoom_factor: 2 }", {{1, 1, 2, 2}, {1, 1, 3, 3}}, "leave out height"},
      {"", {{1, 1, 2, 2}, {3, 3}}, "second bottom"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
