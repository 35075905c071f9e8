// DetectionEvaluate: classifies each detection as hit or miss. The output begins with a row for
// each class except the background: -1, class, number of objects, -1, -1. It continues with a row
// for each detection: image, label, score, hit, miss; sorted by image, label and descending score.
// A detection hits the object of its image and class with the largest overlap, if that is at least
// overlap_threshold and no better detection hit the object. With evaluate_difficult_gt: false a
// detection of an object marked difficult is neither hit nor miss. No gradient.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/detection/box_inputs.h"
#include "layers/detection/image_sizes.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 5;

struct Judged {
  double score = 0;
  Box box;
  bool hit = false;
  bool miss = false;
};

struct ImageClass {
  int64_t image;
  int64_t label;
  auto operator<=>(const ImageClass&) const = default;
};

using Detections = std::map<ImageClass, std::vector<Judged>>;
using Objects = std::map<ImageClass, std::vector<LabelledObject>>;

// Sizes of the images of the next batch, for boxes in pixels.
class ImageSizes final : public LayerSessionState {
 public:
  explicit ImageSizes(const std::string& path) : sizes_(ReadImageSizes(path)) {}
  const ImageSize& Of(int64_t image) const {
    return sizes_[(next_ + static_cast<size_t>(image)) % sizes_.size()];
  }
  void Advance(int64_t images) { next_ = (next_ + static_cast<size_t>(images)) % sizes_.size(); }
  void Save(LayerState* state) const override { state->set_position(next_); }
  void Restore(const LayerState& state) override { next_ = state.position() % sizes_.size(); }

 private:
  const std::vector<ImageSize> sizes_;
  size_t next_ = 0;
};

class DetectionEvaluate final : public Layer {
 public:
  explicit DetectionEvaluate(const LayerParameter& param)
      : Layer(param),
        classes_(RequireClasses(*this, evaluate().has_num_classes(), evaluate().num_classes(),
                                "detection_evaluate_param")),
        // The field is unsigned: -1 (no background) arrives as 2^32 - 1.
        background_(static_cast<int32_t>(evaluate().background_label_id())) {
    if (background_ < -1 || background_ >= classes_) {
      FailField(
          *this, "detection_evaluate_param.background_label_id",
          StrCat("background_label_id is ", background_, ", expected a class 0..", classes_ - 1));
    }
    if (!(evaluate().overlap_threshold() > 0)) {
      FailField(*this, "detection_evaluate_param.overlap_threshold",
                StrCat("overlap_threshold is ", evaluate().overlap_threshold(),
                       ", expected more than 0"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const int64_t detections = CountRows(*this, context.inputs[0].shape, 7, "detections");
    CountRows(*this, context.inputs[1].shape, 8, "objects");
    LayerInfo info;
    info.outputs = {{Shape({1, 1, Foreground() + detections, kColumns}), context.inputs[0].dtype}};
    info.gradient_forbidden = {true, true};
    info.dynamic_outputs = true;
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const override {
    if (evaluate().name_size_file().empty()) return nullptr;
    return std::make_unique<ImageSizes>(evaluate().name_size_file());
  }

  void Forward(const ForwardArgs& args) const override {
    auto* const sizes = static_cast<ImageSizes*>(args.state);
    Detections detections = ReadDetections(args.inputs[0]);
    const Objects objects = ReadObjectsByClass(args.inputs[1]);
    for (auto& [key, list] : detections) {
      std::ranges::stable_sort(list, std::ranges::greater{}, &Judged::score);
      const auto own = objects.find(key);
      Judge(own == objects.end() ? nullptr : &own->second,
            sizes == nullptr ? nullptr : &sizes->Of(key.image), &list);
    }
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      T* end = WriteCounts(objects, args.outputs[0].data<T>());
      end = WriteJudged(detections, end);
      const int64_t rows = (end - args.outputs[0].data<T>()) / kColumns;
      args.output_shapes[0] = Shape({1, 1, rows, kColumns});
    });
    int64_t images = detections.empty() ? 0 : detections.rbegin()->first.image + 1;
    if (!objects.empty()) images = std::max(images, objects.rbegin()->first.image + 1);
    if (sizes != nullptr) sizes->Advance(images);
  }

 private:
  const DetectionEvaluateParameter& evaluate() const { return param().detection_evaluate_param(); }
  int64_t Foreground() const { return classes_ - (background_ < 0 ? 0 : 1); }

  Detections ReadDetections(const ConstTensorView& blob) const {
    Detections detections;
    DispatchFloat(blob.dtype(), [&]<typename T>(T) {
      const T* row = blob.data<T>();
      for (int64_t r = 0; r < blob.count() / 7; ++r, row += 7) {
        if (row[0] == T(-1) || row[1] == T(-1)) continue;
        const ImageClass key{WholeNumber(*this, row[0], -1, r, "image"),
                             WholeNumber(*this, row[1], classes_, r, "label")};
        if (key.label == background_) {
          Fail(ErrorCode::kDataLoss,
               StrCat("detection ", r, " has label ", key.label, ", which is the background"),
               {.layer = param().name()});
        }
        // A NaN score sorts last.
        const double score =
            row[2] == row[2] ? double{row[2]} : -std::numeric_limits<double>::infinity();
        detections[key].push_back(
            {score, {double{row[3]}, double{row[4]}, double{row[5]}, double{row[6]}}});
      }
    });
    return detections;
  }

  Objects ReadObjectsByClass(const ConstTensorView& blob) const {
    Objects objects;
    for (const LabelledObject& object :
         ReadObjects(*this, blob, {.classes = classes_, .background = background_})) {
      objects[{object.image, object.label}].push_back(object);
    }
    return objects;
  }

  bool Counts(const LabelledObject& object) const {
    return evaluate().evaluate_difficult_gt() || !object.difficult;
  }

  void Judge(const std::vector<LabelledObject>* objects, const ImageSize* size,
             std::vector<Judged>* detections) const {
    std::vector<bool> taken(objects == nullptr ? 0 : objects->size(), false);
    for (Judged& detection : *detections) {
      detection.miss = true;
      double best = -1;
      size_t which = 0;
      for (size_t o = 0; o < taken.size(); ++o) {
        const double overlap = OverlapIn(size, detection.box, (*objects)[o].box);
        if (overlap > best) {
          best = overlap;
          which = o;
        }
      }
      if (!(best >= double{evaluate().overlap_threshold()})) continue;
      const bool counts = Counts((*objects)[which]);
      detection.hit = counts && !taken[which];
      detection.miss = counts && taken[which];
      taken[which] = taken[which] || counts;
    }
  }

  double OverlapIn(const ImageSize* size, const Box& detection, const Box& object) const {
    if (size == nullptr) return Overlap(detection, object);
    const ResizeParameter* resize =
        evaluate().has_resize_param() ? &evaluate().resize_param() : nullptr;
    return Overlap(ToPixels(detection, *size, resize), ToPixels(object, *size, resize),
                   BoxUnits::kPixels);
  }

  template <typename T>
  T* WriteCounts(const Objects& objects, T* out) const {
    std::vector<int64_t> counts(static_cast<size_t>(classes_), 0);
    for (const auto& [key, list] : objects) {
      counts[static_cast<size_t>(key.label)] +=
          std::ranges::count_if(list, [&](const LabelledObject& o) { return Counts(o); });
    }
    for (int64_t c = 0; c < classes_; ++c) {
      if (c == background_) continue;
      for (const int64_t v :
           {int64_t{-1}, c, counts[static_cast<size_t>(c)], int64_t{-1}, int64_t{-1}}) {
        *out++ = static_cast<T>(v);
      }
    }
    return out;
  }

  template <typename T>
  static T* WriteJudged(const Detections& detections, T* out) {
    for (const auto& [key, list] : detections) {
      for (const Judged& d : list) {
        *out++ = static_cast<T>(key.image);
        *out++ = static_cast<T>(key.label);
        *out++ = static_cast<T>(d.score);
        *out++ = static_cast<T>(d.hit);
        *out++ = static_cast<T>(d.miss);
      }
    }
    return out;
  }

  const int64_t classes_;
  const int64_t background_;
};

std::vector<LayerSample> Samples() {
  // The integers 0 and 1 make valid rows; the boxes are points, lines or the whole image.
  const SampleInput detections{.shape = {1, 1, 40, 7}, .low = 0, .high = 1, .integer = true};
  const SampleInput objects{.shape = {1, 1, 30, 8}, .low = 0, .high = 1, .integer = true};
  const std::string classes = "detection_evaluate_param { num_classes: 3 background_label_id: 2";
  std::vector<LayerSample> samples = {
      {.name = "typical", .prototxt = classes + " }", .inputs = {detections, objects}},
      {.name = "easy_only",
       .prototxt = classes + " overlap_threshold: 0.3 evaluate_difficult_gt: false }",
       .inputs = {detections, objects}},
      {.name = "no_background",
       .prototxt = "detection_evaluate_param { num_classes: 2 background_label_id: 4294967295 }",
       .inputs = {detections, objects}},
      {.name = "nothing_found",
       .prototxt = classes + " }",
       .inputs = {{.shape = {1, 1, 2, 7}, .low = -1, .high = -1}, objects}},
      {.name = "no_objects",
       .prototxt = classes + " }",
       .inputs = {detections, {.shape = {1, 1, 1, 8}, .low = -1, .high = -1}}},
      {.name = "empty",
       .prototxt = classes + " }",
       .inputs = {{.shape = {1, 1, 0, 7}}, {.shape = {1, 1, 0, 8}}}},
  };
  for (LayerSample& sample : samples) {
    sample.gradient = false;
    sample.phase = TEST;
  }
  return samples;
}

}  // namespace

void RegisterDetectionEvaluate(Registry& registry) {
  LayerType type;
  type.name = "DetectionEvaluate";
  type.category = "detection";
  type.summary = "Marks detections as right or wrong, for the average precision (AP) of a test.";
  type.formula = "hit: max over free objects of its class of overlap >= overlap_threshold";
  type.input_docs = {"detections: 1 x 1 x D x 7, of DetectionOutput",
                     "objects: 1 x 1 x G x 8, rows item (index in the batch; -1: no object), "
                     "label, instance, xmin, ymin, xmax, ymax, difficult"};
  type.output_docs = {
      "1 x 1 x (classes without background + valid detections) x 5: rows -1, class, objects, -1, "
      "-1; then rows image, label, score, hit, miss"};
  type.differences = {
      "A row of objects with item -1 is skipped, as in MultiBoxLoss; the fork stops at it.",
      "With name_size_file the images of a batch are those up to the largest index seen in "
      "detections or objects; the fork counts only images with detections.",
      "Labels and items that are not whole numbers in their range are errors."};
  type.origin = "SSD";
  type.param_fields = {"detection_evaluate_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const DetectionEvaluate>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{1, 1, 2, 7}, {1, 1, 2, 8}}, "must be given"},
      {"detection_evaluate_param { num_classes: 2 }",
       {{1, 1, 2, 6}, {1, 1, 2, 8}},
       "detections of shape 1x1x2x6"},
      {"detection_evaluate_param { num_classes: 2 }",
       {{1, 1, 2, 7}, {1, 1, 2, 7}},
       "objects of shape 1x1x2x7"},
      {"detection_evaluate_param { num_classes: 2 background_label_id: 2 }",
       {{1, 1, 2, 7}, {1, 1, 2, 8}},
       "background_label_id is 2"},
      {"detection_evaluate_param { num_classes: 2 overlap_threshold: 0 }",
       {{1, 1, 2, 7}, {1, 1, 2, 8}},
       "overlap_threshold is 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
