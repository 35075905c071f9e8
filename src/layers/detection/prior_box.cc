// PriorBox: the same set of boxes around each position of a feature map, in units of the image. Row
// 0 of the output holds the boxes, positions in row-major order; row 1 holds the variances of the
// encoding. For each min_size s there is a square of side s; with a max_size S, a square of side
// sqrt(s S); for each ratio r other than 1, a box of s sqrt(r) x s / sqrt(r). s and S are truncated
// to whole numbers first, because existing nets were trained that way. Only the shapes of the
// inputs are used.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/prior_boxes.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest boxes per thread

class PriorBox final : public Layer {
 public:
  explicit PriorBox(const LayerParameter& param) : Layer(param) {
    CheckSizes();
    CheckRatios();
    CheckVariance();
    CheckImageAndStep();
    CheckOffsets();
    sizes_ = PriorSizes<std::vector<double>, std::vector<PriorSize>>(param.prior_box_param());
    offsets_ = PriorOffsets<std::vector<PriorOffset>>(param.prior_box_param());
  }

  LayerInfo Infer(const InferContext& context) const override {
    for (int i = 0; i < 2; ++i) {
      const Shape& shape = context.inputs[static_cast<size_t>(i)].shape;
      if (shape.axes() == 4) continue;
      FailInputs(*this, StrCat(i == 0 ? "the feature map" : "the image", " has shape ",
                               ToString(shape), ", expected N x C x H x W"));
    }
    const Shape& map = context.inputs[0].shape;
    const PriorGrid grid = MakePriorGrid(prior(), map, context.inputs[1].shape);
    if (grid.image_height == 0 || grid.image_width == 0) {
      FailInputs(*this, StrCat("the image has shape ", ToString(context.inputs[1].shape),
                               ", and boxes in units of nothing have no value"));
    }
    const int64_t places = Shape({map[2], map[3]}).count();
    LayerInfo info;
    info.outputs = {{Shape({1, 2, places * PerPlace() * 4}), context.inputs[0].dtype}};
    info.constant = true;
    info.gradient_forbidden = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const PriorGrid grid = MakePriorGrid(prior(), args.inputs[0].shape(), args.inputs[1].shape());
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      T* out = args.outputs[0].data<T>();
      const int64_t places = grid.height * grid.width;
      const int64_t grain = std::max<int64_t>(1, kGrain / PerPlace());
      T* variance = out + places * PerPlace() * 4;
      ParallelFor(args.context.threads(), places, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t at = begin; at < end; ++at) {
          WritePlace(grid, at, out + at * PerPlace() * 4);
          T* v = variance + at * PerPlace() * 4;
          for (int64_t i = 0; i < PerPlace() * 4; ++i) {
            v[i] = static_cast<T>(PriorVariance(prior(), i % 4));
          }
        }
      });
    });
  }

 private:
  const PriorBoxParameter& prior() const { return param().prior_box_param(); }
  int64_t PerPlace() const { return static_cast<int64_t>(sizes_.size() * offsets_.size()); }

  template <typename T>
  void WritePlace(const PriorGrid& grid, int64_t at, T* out) const {
    const int64_t row_index = at / grid.width;
    const auto row = static_cast<double>(row_index);
    const auto column = static_cast<double>(at % grid.width);
    const bool clip = prior().clip();
    for (const PriorSize& size : sizes_) {
      for (const PriorOffset& offset : offsets_) {
        const Box box = PriorAt(grid, row, column, size, offset, clip);
        for (const double v : {box.xmin, box.ymin, box.xmax, box.ymax}) *out++ = static_cast<T>(v);
      }
    }
  }

  void CheckSizes() const;
  void CheckRatios() const;
  void CheckVariance() const;
  void CheckImageAndStep() const;
  void CheckOffsets() const;

  std::vector<PriorSize> sizes_;
  std::vector<PriorOffset> offsets_;
};

void PriorBox::CheckSizes() const {
  const PriorBoxParameter& p = prior();
  if (p.min_size_size() == 0 && p.width_size() == 0) {
    FailField(*this, "prior_box_param.min_size", "give min_size: the sides of the boxes in pixels");
  }
  for (const float size : p.min_size()) {
    if (size >= 1 && std::isfinite(size)) continue;
    FailField(*this, "prior_box_param.min_size",
              StrCat("min_size is ", size, ", expected 1 pixel or more"));
  }
  if (p.max_size_size() > 0 && p.max_size_size() != p.min_size_size()) {
    FailField(*this, "prior_box_param.max_size",
              StrCat(p.max_size_size(), " max_size for ", p.min_size_size(),
                     " min_size, expected none or one for each"));
  }
  for (int i = 0; i < p.max_size_size(); ++i) {
    if (p.max_size(i) > p.min_size(i) && std::isfinite(p.max_size(i))) continue;
    FailField(
        *this, "prior_box_param.max_size",
        StrCat("max_size is ", p.max_size(i), ", expected more than its min_size ", p.min_size(i)));
  }
  if (p.width_size() != p.height_size()) {
    FailField(*this, "prior_box_param.width",
              StrCat(p.width_size(), " width and ", p.height_size(), " height, expected as many"));
  }
  for (int i = 0; i < p.width_size(); ++i) {
    if (p.width(i) > 0 && p.height(i) > 0 && std::isfinite(p.width(i) * p.height(i))) continue;
    FailField(*this, "prior_box_param.width",
              StrCat("a box of ", p.width(i), " x ", p.height(i), ", expected sides above 0"));
  }
}

void PriorBox::CheckRatios() const {
  for (const float ratio : prior().aspect_ratio()) {
    if (ratio > 0 && std::isfinite(ratio)) continue;
    FailField(*this, "prior_box_param.aspect_ratio",
              StrCat("aspect_ratio is ", ratio, ", expected more than 0"));
  }
}

void PriorBox::CheckVariance() const {
  const int count = prior().variance_size();
  if (count != 0 && count != 1 && count != 4) {
    FailField(*this, "prior_box_param.variance",
              StrCat(count, " variances, expected none (0.1), one, or four"));
  }
  for (const float variance : prior().variance()) {
    if (variance > 0 && std::isfinite(variance)) continue;
    FailField(*this, "prior_box_param.variance",
              StrCat("variance is ", variance, ", expected more than 0"));
  }
}

void PriorBox::CheckImageAndStep() const {
  const PriorBoxParameter& p = prior();
  if (p.has_img_size() && (p.has_img_h() || p.has_img_w())) {
    FailField(*this, "prior_box_param.img_size", "give img_size, or img_h and img_w, not both");
  }
  if (p.has_img_h() != p.has_img_w()) {
    FailField(*this, "prior_box_param.img_h", "img_h and img_w must be given together");
  }
  if ((p.has_img_size() && p.img_size() == 0) ||
      (p.has_img_h() && (p.img_h() == 0 || p.img_w() == 0))) {
    FailField(*this, "prior_box_param.img_size", "the image size is 0, expected 1 or more");
  }
  if (p.has_step() && (p.has_step_h() || p.has_step_w())) {
    FailField(*this, "prior_box_param.step", "give step, or step_h and step_w, not both");
  }
  if (p.has_step_h() != p.has_step_w()) {
    FailField(*this, "prior_box_param.step_h", "step_h and step_w must be given together");
  }
  for (const float step : {p.has_step() ? p.step() : 1.0F, p.has_step_h() ? p.step_h() : 1.0F,
                           p.has_step_w() ? p.step_w() : 1.0F}) {
    if (step > 0 && std::isfinite(step)) continue;
    FailField(*this, "prior_box_param.step", StrCat("step is ", step, ", expected more than 0"));
  }
}

void PriorBox::CheckOffsets() const {
  if (prior().offset_h_size() != prior().offset_w_size()) {
    FailField(*this, "prior_box_param.offset_h",
              StrCat(prior().offset_h_size(), " offset_h and ", prior().offset_w_size(),
                     " offset_w, expected as many"));
  }
}

std::vector<LayerSample> Samples() {
  const SampleInput map{.shape = {2, 3, 4, 5}};
  const SampleInput image{.shape = {2, 3, 60, 80}};
  std::vector<LayerSample> samples;
  const auto add = [&](const char* name, const char* text) {
    samples.push_back({.name = name,
                       .prototxt = StrCat("prior_box_param { ", text, " }"),
                       .inputs = {map, image}});
  };
  add("ratios",
      "min_size: 12 max_size: 25 aspect_ratio: 2 aspect_ratio: 3 "
      "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2");
  add("one_square", "min_size: 30.6");
  add("two_sizes", "min_size: 10 min_size: 20 max_size: 20 max_size: 30 aspect_ratio: 2");
  add("unflipped", "min_size: 12 aspect_ratio: 2 flip: false clip: true");
  add("image_size", "min_size: 12 img_size: 100 step: 16 offset: 0.25 variance: 0.2");
  add("image_sides", "min_size: 12 img_h: 50 img_w: 90 step_h: 12 step_w: 18");
  add("widths",
      "width: 20 width: 30 height: 10 height: 15 offset_h: 0 offset_h: 0.5 "
      "offset_w: 0 offset_w: 0.5");
  samples.push_back({.name = "empty_map",
                     .prototxt = "prior_box_param { min_size: 12 }",
                     .inputs = {{.shape = {1, 3, 0, 5}}, image}});
  samples.push_back({.name = "many_places",
                     .prototxt = "prior_box_param { min_size: 12 aspect_ratio: 2 }",
                     .inputs = {{.shape = {1, 1, 70, 90}}, {.shape = {1, 1, 700, 900}}}});
  for (LayerSample& sample : samples) sample.gradient = false;
  return samples;
}

std::vector<BadSample> BadSamples() {
  const std::vector<std::vector<int64_t>> shapes = {{1, 3, 4, 5}, {1, 3, 60, 80}};
  std::vector<BadSample> bad;
  const auto add = [&](const char* text, const char* expect) {
    bad.push_back({StrCat("prior_box_param { ", text, " }"), shapes, expect});
  };
  add("", "give min_size");
  add("min_size: 0.5", "min_size is 0.5");
  add("min_size: nan", "expected 1 pixel or more");
  add("min_size: 10 max_size: 10", "max_size is 10, expected more than its min_size 10");
  add("min_size: 10 max_size: 20 max_size: 30", "2 max_size for 1 min_size");
  add("min_size: 10 aspect_ratio: -1", "aspect_ratio is -1");
  add("min_size: 10 variance: 1 variance: 2", "2 variances");
  add("min_size: 10 variance: 0", "variance is 0");
  add("min_size: 10 img_size: 5 img_h: 5 img_w: 5", "not both");
  add("min_size: 10 img_h: 5", "img_h and img_w must be given together");
  add("min_size: 10 img_size: 0", "the image size is 0");
  add("min_size: 10 step: 0", "step is 0");
  add("min_size: 10 step: 8 step_h: 8 step_w: 8", "not both");
  add("min_size: 10 step_w: 8", "step_h and step_w must be given together");
  add("width: 3", "1 width and 0 height");
  add("width: 3 height: 0", "expected sides above 0");
  add("min_size: 10 offset_h: 0.5", "1 offset_h and 0 offset_w");
  bad.push_back({"prior_box_param { min_size: 10 }",
                 {{1, 3, 4}, {1, 3, 60, 80}},
                 "the feature map has shape 1x3x4"});
  return bad;
}

}  // namespace

void RegisterPriorBox(Registry& registry) {
  LayerType type;
  type.name = "PriorBox";
  type.category = "detection";
  type.summary = "Default boxes at every place of a feature map, for a single-shot detector (SSD).";
  type.formula =
      "boxes of s x s, sqrt(s S) x sqrt(s S) and s sqrt(r) x s / sqrt(r) around "
      "((x + offset) step, (y + offset) step), divided by the image size";
  type.input_docs = {"feature map: N x C x Hf x Wf; only its shape counts",
                     "image: N x C x H x W, the input of the net; only its shape counts"};
  type.output_docs = {
      "priors: 1 x 2 x 4 Hf Wf P; row 0: xmin, ymin, xmax, ymax of each box in units of the image, "
      "places row by row and P boxes each; row 1: their variances"};
  type.differences = {
      "min_size and max_size are cut to whole pixels, as in the SSD fork.",
      "width, height, offset_h and offset_w are OpenCV's: they add boxes given by their sides, and "
      "place each box at several points of a cell.",
      "A min_size below 1 is refused: its boxes would have no area."};
  type.origin = "SSD";
  type.param_fields = {"prior_box_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const PriorBox>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
