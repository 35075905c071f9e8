// NonMaxSuppression: the boxes that remain in each class of each sample when, from the best score
// on, those are dropped whose intersection over union with a better, kept one exceeds the
// threshold. The output has one row (sample, class, box) for each; their number is known only when
// the layer runs. This is NonMaxSuppression of ONNX; there 0 is the default of
// max_output_boxes_per_class.
#include "layers/detection/non_max_suppression.h"

#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_number.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 3;

class NonMaxSuppression final : public Layer {
 public:
  explicit NonMaxSuppression(const LayerParameter& param) : Layer(param) {
    const NonMaxSuppressionParameter& p = param.non_max_suppression_param();
    if (!(p.iou_threshold() >= 0 && p.iou_threshold() <= 1)) {
      FailField(*this, "non_max_suppression_param.iou_threshold",
                StrCat("iou_threshold must be 0 to 1, but it is ", p.iou_threshold()));
    }
    if (p.max_output_boxes_per_class() < 0) {
      FailField(*this, "non_max_suppression_param.max_output_boxes_per_class",
                StrCat("max_output_boxes_per_class must be 0 or more, but it is ",
                       p.max_output_boxes_per_class()));
    }
    FiniteNumber(*this, p.score_threshold(), "non_max_suppression_param.score_threshold");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& boxes = context.inputs[0].shape;
    const Shape& scores = context.inputs[1].shape;
    if (boxes.axes() != 3 || boxes[2] != 4) {
      FailInputs(*this, StrCat("the boxes must be N x B x 4, but they are ", ToString(boxes)));
    }
    if (scores.axes() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
      FailInputs(*this, StrCat("the scores must be ", boxes[0], " x classes x ", boxes[1],
                               ", but they are ", ToString(scores)));
    }
    const ChosenBoxSizes e(*this, boxes, scores);
    LayerInfo info;
    info.outputs = {{Shape{e.lists() * e.most, kColumns}, context.inputs[0].dtype}};
    info.dynamic_outputs = true;
    info.gradient_forbidden = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView &boxes = args.inputs[0], &scores = args.inputs[1];
    const ChosenBoxSizes e(*this, boxes.shape(), scores.shape());
    std::vector<std::vector<int64_t>> kept(static_cast<size_t>(e.lists()));
    DispatchFloat(boxes.dtype(), [&]<typename T>(T) {
      ParallelFor(args.context.threads(), e.lists(), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t list = begin; list < end; ++list) {
          kept[static_cast<size_t>(list)] =
              Choose(e, boxes.data<T>() + list / e.classes * e.boxes * 4,
                     scores.data<T>() + list * e.boxes);
        }
      });
      T* row = args.outputs[0].data<T>();
      for (int64_t list = 0; list < e.lists(); ++list) {
        for (const int64_t box : kept[static_cast<size_t>(list)]) {
          const int64_t sample = list / e.classes;
          *row++ = static_cast<T>(sample);
          *row++ = static_cast<T>(list % e.classes);
          *row++ = static_cast<T>(box);
        }
      }
      args.output_shapes[0] = Shape{(row - args.outputs[0].data<T>()) / kColumns, kColumns};
    });
  }

 private:
  // Returns the chosen boxes of one class of one sample, best first.
  template <typename T>
  std::vector<int64_t> Choose(const ChosenBoxSizes& e, const T* boxes, const T* scores) const {
    const bool center = param().non_max_suppression_param().center_point_box();
    std::vector<Box> all;
    for (int64_t b = 0; b < e.boxes; ++b) {
      const T* v = boxes + 4 * b;
      all.push_back(GivenBox(center, {v[0], v[1], v[2], v[3]}));
    }
    const std::vector<double> numbers(scores, scores + e.boxes);
    return Suppress(all, BestFirst(numbers, LeastScore(*this), -1), ChosenBoxRule(*this, e));
  }
};

}  // namespace

void RegisterNonMaxSuppression(Registry& registry) {
  LayerType type;
  type.name = "NonMaxSuppression";
  type.category = "detection";
  type.summary = "Chooses boxes by their scores and drops those that overlap a better one.";
  type.formula =
      "rows (n, c, b) of the boxes b of sample n with scores[n, c, b] > score_threshold, best "
      "first, "
      "without those whose intersection over union with an earlier one exceeds iou_threshold. It "
      "is "
      "NonMaxSuppression of ONNX";
  type.input_docs = {
      "boxes: N x B x 4, two opposite corners (y1, x1, y2, x2) or with "
      "center_point_box (x, y, width, height); receives no gradient",
      "scores: N x C x B; receives no gradient"};
  type.output_docs = {
      "y: rows of sample, class and box, sorted by sample, class and score; there may be none"};
  type.differences = {
      "max_output_boxes_per_class is unlimited if unset; in ONNX it is 0, which gives no rows."};
  type.origin = "Crema";
  type.param_fields = {"non_max_suppression_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const NonMaxSuppression>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> boxes,
                         std::vector<int64_t> scores) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "non_max_suppression_param { " + fields + " }",
                       .inputs = {{.shape = std::move(boxes), .low = 0, .high = 1},
                                  {.shape = std::move(scores), .distinct = true}},
                       .gradient = false};
  };
  type.samples = {
      sample("corners", "iou_threshold: 0.3", {2, 9, 4}, {2, 3, 9}),
      sample("few", "iou_threshold: 0.5 max_output_boxes_per_class: 2", {2, 9, 4}, {2, 3, 9}),
      sample("threshold", "iou_threshold: 0.4 score_threshold: 0.1", {1, 12, 4}, {1, 2, 12}),
      sample("centers", "iou_threshold: 0.2 center_point_box: true", {1, 9, 4}, {1, 2, 9}),
      sample("no_overlap", "", {1, 9, 4}, {1, 1, 9}),
      sample("none", "max_output_boxes_per_class: 0", {1, 9, 4}, {1, 1, 9}),
      sample("large", "iou_threshold: 0.6", {1, 600, 4}, {1, 3, 600}),
      sample("no_boxes", "", {2, 0, 4}, {2, 3, 0}),
  };
  const auto bad = [](const char* fields, const char* expect,
                      std::vector<std::vector<int64_t>> shapes = {{1, 2, 4}, {1, 1, 2}}) {
    return BadSample{std::string("non_max_suppression_param { ") + fields + " }", std::move(shapes),
                     expect};
  };
  type.bad_samples = {
      bad("iou_threshold: 1.5", "it is 1.5"),
      bad("iou_threshold: nan", "it is nan"),
      bad("max_output_boxes_per_class: -1", "it is -1"),
      bad("score_threshold: nan", "expected a finite number"),
      bad("", "must be N x B x 4", {{2, 4}, {1, 1, 2}}),
      bad("", "must be N x B x 4", {{1, 2, 5}, {1, 1, 2}}),
      bad("", "must be 1 x classes x 2", {{1, 2, 4}, {1, 1, 3}}),
      bad("", "must be 1 x classes x 2", {{1, 2, 4}, {2, 1, 2}}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
