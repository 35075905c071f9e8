// YoloDetectionOutput and Yolov3DetectionOutput: boxes of the last convolutions of YOLOv2 and
// YOLOv3. Each anchor at each place of each grid gives one box, with the best of its classes. Of
// those with a score above confidence_threshold, a box is dropped if it overlaps a better one of
// any class by more than nms_threshold. Rows: image, label, score, xmin, ymin, xmax, ymax, sorted
// by image and descending score; labels begin at 1. Without any detection there is one row per
// image, -1 except for the image. No gradient.
#include "layers/detection/yolo_output.h"

#include <algorithm>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/box_inputs.h"
#include "layers/layer_number.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 8;  // fewest boxes per thread
constexpr int64_t kColumns = 7;

const char* MessageOf(YoloVersion version) {
  return version == YoloVersion::kV2 ? "yolo_detection_output_param"
                                     : "yolov3_detection_output_param";
}

std::string FieldOf(YoloVersion version, const char* field) {
  return StrCat(MessageOf(version), ".", field);
}

// Calls body(message) with the parameters of the version.
template <typename Body>
auto WithParameters(const Layer& layer, YoloVersion version, const Body& body) {
  if (version == YoloVersion::kV2) return body(layer.param().yolo_detection_output_param());
  return body(layer.param().yolov3_detection_output_param());
}

void CheckMasks(const Layer& layer, const Yolov3DetectionOutputParameter& p) {
  for (const uint32_t anchor : p.mask()) {
    if (2 * int64_t{anchor} + 1 < p.biases_size()) continue;
    FailField(layer, "yolov3_detection_output_param.mask",
              StrCat("mask has anchor ", anchor, ", but biases has the anchors 0..",
                     p.biases_size() / 2 - 1));
  }
  for (const uint32_t scale : p.anchors_scale()) {
    if (scale > 0) continue;
    FailField(layer, "yolov3_detection_output_param.anchors_scale",
              "anchors_scale is 0, expected the pixels per cell of a grid (32, 16, 8)");
  }
}

// Anchor `a` of grid `grid`, in cells.
YoloAnchor AnchorOf(const YoloDetectionOutputParameter& p, int, int a) {
  return {double{p.biases(2 * a)}, double{p.biases(2 * a + 1)}};
}
YoloAnchor AnchorOf(const Yolov3DetectionOutputParameter& p, int grid, int a) {
  const int bias = 2 * static_cast<int>(p.mask(grid * static_cast<int>(p.num_box()) + a));
  const double cell = p.anchors_scale(grid);
  return {double{p.biases(bias)} / cell, double{p.biases(bias + 1)} / cell};
}

void CheckCounts(const Layer&, const YoloDetectionOutputParameter&, size_t) {}
void CheckCounts(const Layer& layer, const Yolov3DetectionOutputParameter& p, size_t grids) {
  if (p.has_mask_group_num() && p.mask_group_num() != grids) {
    FailField(layer, "yolov3_detection_output_param.mask_group_num",
              StrCat("mask_group_num is ", p.mask_group_num(), ", but the layer has ", grids,
                     " bottoms: one for each group"));
  }
  if (static_cast<size_t>(p.anchors_scale_size()) != grids) {
    FailField(layer, "yolov3_detection_output_param.anchors_scale",
              StrCat("anchors_scale has ", p.anchors_scale_size(), " entries for ", grids,
                     " bottoms; give one each"));
  }
  if (static_cast<size_t>(p.mask_size()) != grids * p.num_box()) {
    FailField(layer, "yolov3_detection_output_param.mask",
              StrCat("mask has ", p.mask_size(), " entries, expected num_box (", p.num_box(),
                     ") for each of ", grids, " bottoms"));
  }
}

template <YoloVersion kVersion>
class YoloOutput final : public Layer {
 public:
  explicit YoloOutput(const LayerParameter& param) : Layer(param) {
    CheckYoloParameters(*this, kVersion);
  }

  LayerInfo Infer(const InferContext& context) const override {
    std::vector<Shape> shapes;
    for (const BlobSpec& input : context.inputs) shapes.push_back(input.shape);
    const YoloHead head = YoloHeadOf(*this, kVersion, shapes);
    const int64_t rows = head.images * std::max<int64_t>(1, head.boxes);
    LayerInfo info;
    info.outputs = {{Shape({1, 1, rows, kColumns}), context.inputs[0].dtype}};
    info.gradient_forbidden.assign(context.inputs.size(), true);
    info.dynamic_outputs = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    std::vector<Shape> shapes;
    for (const ConstTensorView& input : args.inputs) shapes.push_back(input.shape());
    const YoloHead head = YoloHeadOf(*this, kVersion, shapes);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* out = args.outputs[0].data<T>();
      int64_t rows = 0;
      for (int64_t n = 0; n < head.images; ++n) {
        for (const YoloBox& found : Detect<T>(args, head, n)) {
          WriteRow(n, found, out + kColumns * rows++);
        }
      }
      const int64_t found = rows;
      for (int64_t n = 0; found == 0 && n < head.images; ++n) {
        WriteRow(n, {{-1, -1, -1, -1}, -1, -2}, out + kColumns * rows++);
      }
      args.output_shapes[0] = Shape({1, 1, rows, kColumns});
    });
  }

 private:
  template <typename T>
  static void WriteRow(int64_t image, const YoloBox& d, T* row) {
    const double values[kColumns] = {double(image), double(d.label + 1), d.score,   d.box.xmin,
                                     d.box.ymin,    d.box.xmax,          d.box.ymax};
    std::ranges::transform(values, row, [](double v) { return static_cast<T>(v); });
  }

  // Returns the boxes of one image that are kept, best first.
  template <typename T>
  static std::vector<YoloBox> Detect(const ForwardArgs& args, const YoloHead& head, int64_t image) {
    const auto count = static_cast<size_t>(head.boxes);
    std::vector<YoloBox> all(count);
    for (size_t g = 0; g < head.grids.size(); ++g) {
      const YoloGrid& grid = head.grids[g];
      const auto anchors = static_cast<int64_t>(grid.anchors.size());
      const int64_t channels = 5 + head.classes;
      const T* of_image = args.inputs[g].data<T>() + image * anchors * channels * grid.places();
      ParallelFor(args.context.threads(), anchors * grid.places(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t a = i / grid.places(), at = i % grid.places();
                      const T* x = of_image + a * channels * grid.places() + at;
                      all[static_cast<size_t>(grid.first + i)] =
                          DecodeYolo(kVersion, head.classes,
                                     {at % grid.width, at / grid.width, grid.width, grid.height,
                                      grid.anchors[static_cast<size_t>(a)]},
                                     [&](int64_t c) { return double{x[c * grid.places()]}; });
                    }
                  });
    }
    std::vector<Box> boxes(count);
    std::vector<double> scores(count);
    std::ranges::transform(all, boxes.begin(), &YoloBox::box);
    std::ranges::transform(all, scores.begin(), &YoloBox::score);
    std::vector<YoloBox> kept;
    for (const int64_t i :
         Suppress(boxes, BestFirst(scores, head.least, -1), {.threshold = head.overlap})) {
      kept.push_back(all[static_cast<size_t>(i)]);
    }
    return kept;
  }
};

struct Case {
  const char* name;
  std::string text;
  std::vector<std::vector<int64_t>> shapes;
};

std::vector<LayerSample> SamplesOf(YoloVersion version, const std::vector<Case>& cases) {
  std::vector<LayerSample> samples;
  for (const Case& c : cases) {
    LayerSample sample{.name = c.name,
                       .prototxt = StrCat(MessageOf(version), " { ", c.text, " }"),
                       .inputs = {},
                       .phase = TEST,
                       .gradient = false};
    for (const std::vector<int64_t>& shape : c.shapes) {
      sample.inputs.push_back({.shape = shape, .low = -3, .high = 3});
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

LayerType CommonType(YoloVersion version) {
  LayerType type;
  type.category = "detection";
  type.output_docs = {
      "detections: 1 x 1 x D x 7, rows image, label (class + 1), score, xmin, ymin, xmax, ymax in "
      "units of the image; D changes from batch to batch. Without a detection: N rows of -1 after "
      "the index of the image"};
  type.differences = {
      "Each image of a batch is judged by itself; the fork gives all boxes to image 0 and drops "
      "boxes that overlap those of other images.",
      "A box with an overlap of exactly nms_threshold is kept, and one with a score of exactly "
      "confidence_threshold is left out."};
  type.origin = "MobileNet-YOLO";
  type.param_fields = {MessageOf(version)};
  type.inputs = {1, Arity::kAny};
  return type;
}

constexpr const char* kAnchorsV2 = "num_box: 2 biases: 1.1 biases: 1.5 biases: 2 biases: 1 ";

std::vector<BadSample> BadSamplesV2() {
  const std::string anchors = kAnchorsV2;
  const auto bad = [&](const std::string& text, const char* expect,
                       std::vector<std::vector<int64_t>> shapes = {{2, 16, 3, 3}}) {
    return BadSample{StrCat("yolo_detection_output_param { ", text, " }"), std::move(shapes),
                     expect};
  };
  const std::string good = "num_classes: 3 " + anchors;
  return {
      bad(anchors, "num_classes must be given"),
      bad("num_classes: 3 num_box: 2 biases: 1", "biases has 1 entries"),
      bad("num_classes: 3 num_box: 1 biases: 1 biases: nan", "expected a finite number"),
      bad("num_classes: 3 num_box: 1 biases: 1 biases: 0", "is 0, expected a side above 0"),
      bad(good + "coords: 5", "coords is 5"),
      bad(good + "nms_threshold: -0.5", "nms_threshold is -0.5"),
      bad(good + "confidence_threshold: nan", "expected a finite number"),
      bad(good, "need 16 channels", {{2, 15, 3, 3}}),
      bad(good, "need 16 channels", {{2, 16}}),
      bad(good, "same batch", {{2, 16, 3, 3}, {1, 16, 3, 3}}),
  };
}

LayerType YoloV2Type() {
  LayerType type = CommonType(YoloVersion::kV2);
  type.name = "YoloDetectionOutput";
  type.summary = "The detections of YOLOv2: decodes boxes, drops those that overlap a better one.";
  type.formula =
      "box: centre (column + sigmoid(x), row + sigmoid(y)) and size (exp(w), exp(h)) * anchor in "
      "cells, by the size of the grid; score: sigmoid(object) * the largest softmax(classes)";
  type.input_docs = {
      "predictions: N x A (5 + K) x H x W for A anchors and K classes: x, y, w, h, object, classes "
      "of each anchor; any number of such grids, all with the same anchors"};
  type.unread_fields = {"yolo_detection_output_param.side"};
  type.differences.emplace_back(
      "Any number of grids, which need not be square; the fork reads one or two square ones.");
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const YoloOutput<YoloVersion::kV2>>(p);
  };
  const std::string anchors = kAnchorsV2;
  type.samples = SamplesOf(
      YoloVersion::kV2,
      {{"typical", "num_classes: 3 confidence_threshold: 0.2 " + anchors, {{2, 16, 4, 5}}},
       {"two_grids", "num_classes: 2 " + anchors, {{2, 14, 3, 3}, {2, 14, 5, 4}}},
       {"one_class", "num_classes: 1 nms_threshold: 0.1 " + anchors, {{1, 12, 6, 6}}},
       {"nothing", "num_classes: 3 confidence_threshold: 1 " + anchors, {{2, 16, 3, 3}}},
       {"no_places", "num_classes: 3 " + anchors, {{2, 16, 0, 3}}},
       {"empty_batch", "num_classes: 3 " + anchors, {{0, 16, 3, 3}}}});
  type.bad_samples = BadSamplesV2();
  return type;
}

constexpr const char* kAnchorsV3 =
    "num_box: 2 biases: 10 biases: 14 biases: 23 biases: 27 biases: 37 biases: 58 ";

// Masks and scales of one grid, and of two.
std::string OneGridV3() {
  return StrCat(kAnchorsV3, "mask: 2 mask: 0 anchors_scale: 8 mask_group_num: 1 ");
}
std::string TwoGridsV3() {
  return StrCat(kAnchorsV3, "mask: 1 mask: 2 mask: 0 mask: 1 anchors_scale: 32 anchors_scale: 16 ");
}

std::vector<BadSample> BadSamplesV3() {
  const std::string anchors = kAnchorsV3, one = OneGridV3(), two = TwoGridsV3();
  const auto bad = [&](const std::string& text, const char* expect) {
    return BadSample{
        StrCat("yolov3_detection_output_param { ", text, " }"), {{2, 16, 3, 3}}, expect};
  };
  return {
      bad(one, "num_classes must be given"),
      bad("num_classes: 3 num_box: 2 biases: 1", "biases has 1 entries"),
      bad("num_classes: 3 num_box: 0 biases: 1 biases: 1", "num_box is 0"),
      bad("num_classes: 3 num_box: 1 biases: 1 biases: 1 mask: 1 anchors_scale: 8",
          "mask has anchor 1"),
      bad("num_classes: 3 num_box: 1 biases: 1 biases: 1 mask: 0 anchors_scale: 0",
          "anchors_scale is 0"),
      bad("num_classes: 3 " + two, "anchors_scale has 2 entries for 1 bottoms"),
      bad("num_classes: 3 mask: 0 " + one, "mask has 3 entries"),
      bad("num_classes: 3 mask_group_num: 2 " + anchors, "mask_group_num is 2"),
      bad("num_classes: 4 " + one, "need 18 channels"),
  };
}

LayerType YoloV3Type() {
  LayerType type = CommonType(YoloVersion::kV3);
  type.name = "Yolov3DetectionOutput";
  type.summary = "The detections of YOLOv3: decodes boxes, drops those that overlap a better one.";
  type.formula =
      "box: centre (column + sigmoid(x), row + sigmoid(y)) in cells, by the size of the grid, and "
      "size (exp(w), exp(h)) * anchor in pixels, by the size of the grid times anchors_scale; "
      "score: sigmoid(object) * the largest sigmoid(class)";
  type.input_docs = {
      "predictions: N x A (5 + K) x H x W for A anchors (num_box) and K classes: x, y, w, h, "
      "object, classes of each anchor; one bottom for each grid. Grid g has the anchors mask[g A] "
      "to mask[g A + A - 1] of biases"};
  type.differences.emplace_back(
      "A box has its best class only; in the fork it may have others if nms_threshold exceeds 1.");
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const YoloOutput<YoloVersion::kV3>>(p);
  };
  const std::string one = OneGridV3(), two = TwoGridsV3();
  type.samples =
      SamplesOf(YoloVersion::kV3,
                {{"typical",
                  "num_classes: 3 confidence_threshold: 0.2 " + two,
                  {{2, 16, 2, 3}, {2, 16, 4, 6}}},
                 {"one_grid", "num_classes: 1 nms_threshold: 0.1 " + one, {{2, 12, 5, 5}}},
                 {"low", "num_classes: 2 nms_threshold: 0.7 " + one, {{1, 14, 6, 4}}},
                 {"nothing", "num_classes: 3 confidence_threshold: 1 " + one, {{2, 16, 3, 3}}},
                 {"empty_batch", "num_classes: 3 " + one, {{0, 16, 3, 3}}}});
  type.bad_samples = BadSamplesV3();
  return type;
}

}  // namespace

void CheckYoloParameters(const Layer& layer, YoloVersion version) {
  WithParameters(layer, version, [&](const auto& p) {
    if (!p.has_num_classes() || p.num_classes() == 0) {
      FailField(layer, FieldOf(version, "num_classes"),
                "num_classes must be given: how many classes there are, without a background");
    }
    if (p.num_box() == 0) {
      FailField(layer, FieldOf(version, "num_box"),
                "num_box is 0, expected the anchors at each place");
    }
    const bool v2 = version == YoloVersion::kV2;
    const int64_t least = v2 ? 2 * int64_t{p.num_box()} : 2;
    if (p.biases_size() < least || p.biases_size() % 2 != 0) {
      FailField(layer, FieldOf(version, "biases"),
                StrCat("biases has ", p.biases_size(), " entries, expected width and height of ",
                       v2 ? StrCat("num_box (", p.num_box(), ") anchors") : "each anchor"));
    }
    for (const float side : p.biases()) {
      if (FiniteNumber(layer, side, FieldOf(version, "biases")) > 0) continue;
      FailField(layer, FieldOf(version, "biases"),
                StrCat("an entry of biases is ", side, ", expected a side above 0"));
    }
    FiniteNumber(layer, p.confidence_threshold(), FieldOf(version, "confidence_threshold"));
    if (!(p.nms_threshold() >= 0)) {
      FailField(layer, FieldOf(version, "nms_threshold"),
                StrCat("nms_threshold is ", p.nms_threshold(), ", expected 0 or more"));
    }
  });
  if (version == YoloVersion::kV3) {
    CheckMasks(layer, layer.param().yolov3_detection_output_param());
  } else if (layer.param().yolo_detection_output_param().coords() != 4) {
    FailField(layer, "yolo_detection_output_param.coords",
              StrCat("coords is ", layer.param().yolo_detection_output_param().coords(),
                     ", expected 4: x, y, width, height"));
  }
}

YoloHead YoloHeadOf(const Layer& layer, YoloVersion version, std::span<const Shape> inputs) {
  return WithParameters(layer, version, [&](const auto& p) {
    CheckCounts(layer, p, inputs.size());
    YoloHead head{.version = version,
                  .classes = p.num_classes(),
                  .least = p.confidence_threshold(),
                  .overlap = p.nms_threshold()};
    const int64_t channels = p.num_box() * (5 + head.classes);
    for (const Shape& shape : inputs) {
      if (shape.axes() != 4 || shape[1] != channels) {
        FailInputs(layer, StrCat("predictions of shape ", ToString(shape), ": num_box (",
                                 p.num_box(), ") times 5 + num_classes (", head.classes, ") need ",
                                 channels, " channels on axis 1 of 4"));
      }
      if (shape[0] != inputs[0][0]) FailInputs(layer, "all bottoms must have the same batch");
      YoloGrid grid{.height = shape[2], .width = shape[3], .first = head.boxes};
      const auto index = static_cast<int>(head.grids.size());
      for (int a = 0; a < static_cast<int>(p.num_box()); ++a) {
        grid.anchors.push_back(AnchorOf(p, index, a));
      }
      head.boxes += p.num_box() * grid.places();
      head.grids.push_back(std::move(grid));
    }
    head.images = inputs[0][0];
    return head;
  });
}

void RegisterYoloDetectionOutput(Registry& registry) { registry.Add(YoloV2Type()); }
void RegisterYolov3DetectionOutput(Registry& registry) { registry.Add(YoloV3Type()); }

}  // namespace crema
