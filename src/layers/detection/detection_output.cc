// DetectionOutput: for each image and each class except the background, takes the best top_k boxes
// with a score above confidence_threshold and removes those that overlap a better one by more than
// nms_threshold; then keeps the best keep_top_k over all classes. Rows: image, label, score, xmin,
// ymin, xmax, ymax, sorted by image, label and descending score. Without any detection there is one
// row per image, -1 except for the image. Boxes are those of Decode, beyond the image too
// unless `clip` is set. No gradient.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/box_inputs.h"
#include "layers/detection/detection_files.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 10;  // fewest boxes per thread
constexpr int64_t kColumns = 7;

class DetectionOutput final : public Layer {
 public:
  explicit DetectionOutput(const LayerParameter& param)
      : Layer(param),
        rule_(SuppressionOf(*this, detection().nms_param(), "detection_output_param.nms_param")),
        top_k_(detection().nms_param().has_top_k() ? detection().nms_param().top_k() : -1),
        classes_(RequireClasses(*this, detection().has_num_classes(), detection().num_classes(),
                                "detection_output_param")),
        code_(CodeOf(detection().code_type())) {
    CheckRanges();
    CheckFiles();
  }

  LayerInfo Infer(const InferContext& context) const override {
    const BoxSizes sizes = SizesOf(context.inputs);
    const int64_t candidates = top_k_ < 0 ? sizes.priors : std::min(top_k_, sizes.priors);
    int64_t most = candidates * ForegroundClasses();
    if (detection().keep_top_k() >= 0) most = std::min<int64_t>(most, detection().keep_top_k());
    const int64_t rows = sizes.images * std::max<int64_t>(1, most);
    LayerInfo info;
    info.outputs = {{Shape({1, 1, rows, kColumns}), context.inputs[0].dtype}};
    info.gradient_forbidden.assign(context.inputs.size(), true);
    info.dynamic_outputs = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    std::vector<BlobSpec> specs;
    for (const ConstTensorView& input : args.inputs) specs.push_back({input.shape()});
    const BoxSizes sizes = SizesOf(specs);
    const Priors priors = ReadPriors(args.inputs[2], !detection().variance_encoded_in_target());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* loc = args.inputs[0].data<T>();
      const T* conf = args.inputs[1].data<T>();
      T* out = args.outputs[0].data<T>();
      int64_t rows = 0;
      for (int64_t n = 0; n < sizes.images; ++n) {
        const std::vector<Detection> found =
            Detect(args.context.threads(), sizes, priors, loc, conf);
        for (const Detection& d : found) WriteRow(n, d, out + kColumns * rows++);
        if (args.state != nullptr) static_cast<DetectionFiles*>(args.state)->Add(found);
        loc += sizes.priors * sizes.box_classes * 4;
        conf += sizes.priors * sizes.classes;
      }
      for (int64_t n = 0; rows == 0 && n < sizes.images; ++n) {
        WriteRow(n, {-1, -1, {-1, -1, -1, -1}}, out + kColumns * n);
      }
      args.output_shapes[0] = Shape({1, 1, rows == 0 ? sizes.images : rows, kColumns});
    });
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const override {
    const SaveOutputParameter& save = detection().save_output_param();
    if (!WantsDetectionFiles(save)) return nullptr;
    return std::make_unique<DetectionFiles>(save, detection().background_label_id());
  }

 private:
  const DetectionOutputParameter& detection() const { return param().detection_output_param(); }

  BoxSizes SizesOf(std::span<const BlobSpec> inputs) const {
    return CheckPredictions(*this, inputs, classes_, detection().share_location());
  }

  int64_t ForegroundClasses() const {
    return classes_ - (detection().background_label_id() < 0 ? 0 : 1);
  }

  template <typename T>
  static void WriteRow(int64_t image, const Detection& d, T* row) {
    const double values[kColumns] = {double(image), double(d.label), d.score,   d.box.xmin,
                                     d.box.ymin,    d.box.xmax,      d.box.ymax};
    std::ranges::transform(values, row, [](double v) { return static_cast<T>(v); });
  }

  // Returns all boxes of one image, grouped by class if each class has its own.
  template <typename T>
  std::vector<Box> DecodeAll(int threads, const BoxSizes& sizes, const Priors& priors,
                             const T* loc) const {
    const int64_t count = sizes.priors * sizes.box_classes;
    std::vector<Box> boxes(static_cast<size_t>(count));
    ParallelFor(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const auto p = static_cast<size_t>(i / sizes.box_classes);
        const int64_t at = i % sizes.box_classes * sizes.priors + static_cast<int64_t>(p);
        const Box box = Decode(code_, OffsetsAt(loc + 4 * i), priors.boxes[p], priors.variances[p]);
        boxes[static_cast<size_t>(at)] = detection().clip() ? Clip(box, 1, 1) : box;
      }
    });
    return boxes;
  }

  template <typename T>
  std::vector<Detection> Detect(int threads, const BoxSizes& sizes, const Priors& priors,
                                const T* loc, const T* conf) const {
    const std::vector<Box> boxes = DecodeAll(threads, sizes, priors, loc);
    std::vector<std::vector<Detection>> by_class(static_cast<size_t>(classes_));
    ParallelFor(threads, classes_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) {
        if (c == detection().background_label_id()) continue;
        const int64_t first = sizes.box_classes == 1 ? 0 : c * sizes.priors;
        const std::span<const Box> own(boxes.data() + first, static_cast<size_t>(sizes.priors));
        by_class[static_cast<size_t>(c)] = DetectClass(c, own, conf);
      }
    });
    std::vector<Detection> all;
    for (const auto& found : by_class) all.insert(all.end(), found.begin(), found.end());
    KeepBest(&all);
    return all;
  }

  template <typename T>
  std::vector<Detection> DetectClass(int64_t label, std::span<const Box> boxes,
                                     const T* conf) const {
    std::vector<double> scores(boxes.size());
    for (size_t p = 0; p < boxes.size(); ++p) {
      scores[p] = double{conf[static_cast<int64_t>(p) * classes_ + label]};
    }
    const double least = detection().has_confidence_threshold()
                             ? detection().confidence_threshold()
                             : -std::numeric_limits<double>::infinity();
    std::vector<Detection> found;
    for (const int64_t p : Suppress(boxes, BestFirst(scores, least, top_k_), rule_)) {
      found.push_back({label, scores[static_cast<size_t>(p)], boxes[static_cast<size_t>(p)]});
    }
    return found;
  }

  // Keeps the best keep_top_k detections, in their original order.
  void KeepBest(std::vector<Detection>* all) const {
    const int64_t keep = detection().keep_top_k();
    if (keep < 0 || static_cast<int64_t>(all->size()) <= keep) return;
    std::vector<double> scores;
    for (const Detection& d : *all) scores.push_back(d.score);
    std::vector<int64_t> best = BestFirst(scores, -std::numeric_limits<double>::infinity(), keep);
    std::ranges::sort(best);
    std::vector<Detection> kept;
    for (const int64_t i : best) kept.push_back((*all)[static_cast<size_t>(i)]);
    *all = std::move(kept);
  }

  void CheckRanges() const {
    const DetectionOutputParameter& d = detection();
    if (d.background_label_id() < -1 || d.background_label_id() >= classes_) {
      FailField(*this, "detection_output_param.background_label_id",
                StrCat("background_label_id is ", d.background_label_id(),
                       ", expected -1 (none) or a class 0..", classes_ - 1));
    }
    if (d.keep_top_k() < -1) {
      FailField(*this, "detection_output_param.keep_top_k",
                StrCat("keep_top_k is ", d.keep_top_k(), ", expected -1 (all) or 0 or more"));
    }
    if (!d.normalized_bbox()) {
      FailField(*this, "detection_output_param.normalized_bbox",
                "normalized_bbox: false (boxes in pixels) is not supported");
    }
  }

  void CheckFiles() const {
    const SaveOutputParameter& save = detection().save_output_param();
    if (!WantsDetectionFiles(save)) return;
    const std::vector<std::string> formats = {"VOC", "COCO", "ILSVRC"};
    if (save.has_output_format() &&
        std::ranges::find(formats, save.output_format()) != formats.end()) {
      return;
    }
    FailField(*this, "detection_output_param.save_output_param.output_format",
              StrCat("output_format is '", save.output_format(), "', expected VOC, COCO or ILSVRC",
                     DidYouMean(save.output_format(), formats)));
  }

  const SuppressionRule rule_;
  const int64_t top_k_;
  const int64_t classes_;
  const BoxCode code_;
};

std::vector<LayerSample> Samples() {
  std::vector<LayerSample> samples;
  const auto add = [&](const char* name, const std::string& text, int64_t locations = 1) {
    samples.push_back({.name = name,
                       .prototxt = StrCat("detection_output_param { num_classes: 3 ", text, " }"),
                       .inputs = {{.shape = {2, 12 * 4 * locations}},
                                  {.shape = {2, 12 * 3}, .low = 0, .high = 1},
                                  {.shape = {1, 2, 12 * 4}, .low = 0.1, .high = 1}}});
  };
  add("typical",
      "code_type: CENTER_SIZE nms_param { nms_threshold: 0.45 top_k: 8 } keep_top_k: 5 "
      "confidence_threshold: 0.3");
  add("plain", "");
  add("corner_size", "code_type: CORNER_SIZE variance_encoded_in_target: true");
  add("falling_threshold", "nms_param { nms_threshold: 0.7 eta: 0.9 }");
  add("own_locations", "share_location: false code_type: CENTER_SIZE", 3);
  add("clip", "code_type: CENTER_SIZE clip: true");
  add("no_background", "background_label_id: -1 keep_top_k: 4");
  add("nothing", "confidence_threshold: 2");
  samples.push_back({.name = "no_priors",
                     .prototxt = "detection_output_param { num_classes: 3 }",
                     .inputs = {{.shape = {2, 0}}, {.shape = {2, 0}}, {.shape = {1, 2, 0}}}});
  samples.push_back({.name = "empty_batch",
                     .prototxt = "detection_output_param { num_classes: 3 }",
                     .inputs = {{.shape = {0, 8}}, {.shape = {0, 6}}, {.shape = {1, 2, 8}}}});
  for (LayerSample& sample : samples) {
    sample.gradient = false;
    sample.phase = TEST;
  }
  return samples;
}

std::vector<BadSample> BadSamples() {
  const std::vector<std::vector<int64_t>> shapes = {{2, 48}, {2, 36}, {1, 2, 48}};
  std::vector<BadSample> bad;
  const auto add = [&](const char* text, const char* expect) {
    bad.push_back({StrCat("detection_output_param { ", text, " }"), shapes, expect});
  };
  add("", "num_classes must be given");
  add("num_classes: 4", "12 priors with 4 classes need 48 scores");
  add("num_classes: 3 share_location: false", "need 144 box values");
  add("num_classes: 3 background_label_id: 3", "background_label_id is 3");
  add("num_classes: 3 keep_top_k: -2", "keep_top_k is -2");
  add("num_classes: 3 nms_param { nms_threshold: -1 }", "nms_threshold is -1");
  add("num_classes: 3 nms_param { eta: 0 }", "eta is 0");
  add("num_classes: 3 nms_param { top_k: -2 }", "top_k is -2");
  add("num_classes: 3 normalized_bbox: false", "not supported");
  add("num_classes: 3 save_output_param { output_directory: 'a' label_map_file: 'b' "
      "name_size_file: 'c' output_format: 'VOX' }",
      "expected VOC, COCO or ILSVRC");
  bad.push_back({"detection_output_param { num_classes: 3 }",
                 {{2, 48}, {2, 36}, {1, 3, 48}},
                 "priors of shape 1x3x48"});
  bad.push_back(
      {"detection_output_param { num_classes: 3 }", {{2, 48}, {1, 36}, {1, 2, 48}}, "same batch"});
  return bad;
}

}  // namespace

void RegisterDetectionOutput(Registry& registry) {
  LayerType type;
  type.name = "DetectionOutput";
  type.category = "detection";
  type.summary = "The detections of a single-shot detector (SSD): decodes boxes, keeps the best.";
  type.formula =
      "for each class: boxes with score > confidence_threshold, best first, less those with an "
      "overlap > nms_threshold with one that is kept; then the best keep_top_k of the image";
  type.input_docs = {
      "loc: N x 4 P L, the offsets of P priors; L is 1, or the classes if share_location is false",
      "conf: N x P K, the probabilities of K classes for each prior (after Softmax and Flatten)",
      "priors: 1 x 2 x 4 P, of PriorBox", "image: unused; for `visualize`"};
  type.output_docs = {
      "detections: 1 x 1 x D x 7, rows image, label, score, xmin, ymin, xmax, ymax; D changes from "
      "batch to batch. Without a detection: N rows of -1 after the index of the image"};
  type.differences = {
      "background_label_id: -1 works together with share_location; the fork's CPU code fails with "
      "both.",
      "Equal scores keep the order of classes and priors when keep_top_k cuts among them.",
      "visualize draws nothing here; `deploy detect --draw` does.",
      "After the last line of name_size_file, images continue with its first line; the fork "
      "aborts."};
  type.origin = "SSD";
  type.param_fields = {"detection_output_param"};
  type.unread_fields = {"detection_output_param.visualize",
                        "detection_output_param.visualize_threshold",
                        "detection_output_param.save_file"};
  type.inputs = {3, 4};
  type.make = [](const LayerParameter& p) { return std::make_unique<const DetectionOutput>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
