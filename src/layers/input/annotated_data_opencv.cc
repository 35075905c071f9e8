// AnnotatedData: images with boxes from a data set of AnnotatedDatum records, augmented for
// detectors.
// Outputs: images (batch x C x H x W) and, with a second top, the boxes of the batch (1 x 1 x B x
// 8: image, label, instance, xmin, ymin, xmax, ymax, difficult), or one row of -1 if there are
// none. If the records have no annotations, the second top holds labels (batch). B varies by batch;
// the plan reserves the most boxes that a batch of this data set can have. No gradient.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/augment/fit.h"
#include "data/batches/annotated_batches.h"
#include "data/records/box_bounds.h"
#include "data/transform/validate.h"
#include "graph/registry.h"
#include "layers/input/annotated_state.h"
#include "layers/input/image_form.h"
#include "layers/input/mixing.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"
#include "layers/input/record_layer.h"

namespace crema {
namespace {

std::shared_ptr<const Transformer> MakeTransformer(const LayerParameter& param, Phase phase) {
  return std::make_shared<const Transformer>(param.transform_param(), phase, param.name(),
                                             TransformSteps::kAnnotated);
}

std::set<int> LabelsOf(const LayerParameter& param) {
  const std::string& path = param.annotated_data_param().label_map_file();
  return path.empty() ? std::set<int>() : ReadLabels(path);
}

// Facts from the first good record.
struct Survey {
  Shape sample;
  bool boxes = false;
  bool bytes = false;  // otherwise floats
};

// Box bounds of a data set, found in a single pass over it. Thread safety: any thread.
class BoundedOnce {
 public:
  BoxBounds Find(const LayerParameter& param, OpenedOnce& records, const Shard& shard) {
    const std::lock_guard lock(mutex_);
    if (!bounds_) {
      const auto order = OrderOf(param, /*seed=*/0).kind;
      bounds_ = FindBoxBounds(*records.NewReader(), param.data_param().batch_size(), order, shard);
    }
    return *bounds_;
  }

 private:
  std::mutex mutex_;
  std::optional<BoxBounds> bounds_;
};

class AnnotatedData final : public Layer, public ByteSource {
 public:
  explicit AnnotatedData(const LayerParameter& param)
      : AnnotatedData(param, WrittenForm(param),
                      std::make_shared<OpenedOnce>(param.data_param().source())) {
    const DataParameter& data = param.data_param();
    if (data.source().empty()) {
      FailField(*this, "data_param.source",
                "data_param.source is missing: give the path of an LMDB or a LevelDB");
    }
    CheckBatchSize(*this, "data_param.batch_size", data.batch_size());
    CheckPipeline(*this, PipelineFieldsOf(data));
    CheckByteOutput(*this);
    const TransformationParameter& transform = param.transform_param();
    ValidateTransform(transform, param.name(), TransformSteps::kAnnotated);
    RefuseMixing(*this);
    Complain(FindBadSampler(param.annotated_data_param()));
    Complain(FindBadAugmentation(transform));
    const bool cut = param.annotated_data_param().batch_sampler_size() > 0;
    if ((cut || transform.has_expand_param()) && !transform.has_resize_param() &&
        transform.crop_size() == 0 && transform.crop_h() == 0) {
      FailField(*this, cut ? "annotated_data_param.batch_sampler" : "transform_param.expand_param",
                "this gives images of many sizes: add transform_param { resize_param }, which "
                "brings them to one");
    }
  }
  // For parameters that the other constructor has checked.
  AnnotatedData(const LayerParameter& param, const ImageForm& form,
                std::shared_ptr<OpenedOnce> records)
      : Layer(param), form_(form), records_(std::move(records)) {}

  std::string WhyNoBytes(Phase phase) const override {
    std::string why = WhyNotUploaded(param(), phase);
    if (why.empty() && !Look(phase).bytes) why = kFirstHoldsFloats;
    return why;
  }

  ByteParts Part() const override {
    ByteParts parts = PartsAfterSource(param());
    parts.source = std::make_unique<const AnnotatedData>(param(), UploadedForm(param()), records_);
    return parts;
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    const int64_t batch = param().data_param().batch_size();
    const Survey survey = Look(context.phase);
    const bool boxes = form_.TopsOf(context) > 1 && survey.boxes;
    const Shape labels = boxes ? Shape{1, 1, MostRows(), kBoxRow} : Shape{batch};
    LayerInfo info = form_.InfoOf(context, batch, survey.sample, labels);
    info.dynamic_outputs = boxes;
    info.external_output = {true, !survey.boxes};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<AnnotatedDataState*>(args.state)->Next(args);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    const uint64_t seed = context.seed();
    auto options = RecordState(param(), records_, seed, shard_.Get(),
                               [param = param(), form = form_, phase, seed](
                                   RecordStream stream, std::span<const BlobSpec> outputs) {
                                 return Open(param, form, phase, seed, std::move(stream), outputs);
                               });
    auto most_boxes = [param = param(), records = records_, bounds = bounds_,
                       shard = shard_.Get()] {
      return bounds->Find(param, *records, shard).record;
    };
    return std::make_unique<AnnotatedDataState>(std::move(options), std::move(most_boxes));
  }

 private:
  void Complain(const std::optional<Transformer::Misfit>& misfit) const {
    if (misfit) FailField(*this, misfit->field, misfit->message);
  }

  static BatchReader Open(const LayerParameter& param, const ImageForm& form, Phase phase,
                          uint64_t seed, RecordStream stream, std::span<const BlobSpec> outputs) {
    const TransformationParameter& transform = param.transform_param();
    const auto transformer = MakeTransformer(param, phase);
    const auto augmenter =
        std::make_shared<const Augmenter>(transform, param.annotated_data_param(), transformer);
    const size_t tops = outputs.size() - (form.places ? 1 : 0);
    const bool boxes = tops > 1 && outputs[1].shape.axes() == 2;
    const AnnotatedDecoder::Options options{
        .data_set = param.data_param().source(),
        .boxes = boxes,
        .capacity = boxes ? static_cast<uint64_t>(outputs[1].shape[1] / kBoxValues) : 0,
        .labels = LabelsOf(param)};
    const BatchFiller filler(form.BatchFillerOptions(outputs, transform, seed, param.name()),
                             transformer);
    return {.options = std::move(stream.options),
            .source = std::move(stream.source),
            .make_decoder = [options, augmenter, filler, decoded = stream.decoded] {
              return std::make_unique<AnnotatedDecoder>(options, augmenter, filler, decoded);
            }};
  }

  Survey Look(Phase phase) const {
    const std::string& source = param().data_param().source();
    return WithFieldContext(*this, "data_param.source", [&] {
      const auto records = records_->NewReader();
      if (!records->annotated()) {
        FailField(*this, "data_param.source",
                  StrCat("'", source,
                         "' is tar shards, which hold images and labels but no boxes: use an LMDB "
                         "or a LevelDB of AnnotatedDatums, or a layer of type Data"));
      }
      const auto transformer = MakeTransformer(param(), phase);
      AnnotatedDatumReader reader(source, transformer->color_mode());
      const auto survey =
          LookAtRecords(param().pipeline_param(), *records, [&](const KeyedRecord& record) {
            const PixelView pixels = reader.Read(record.key, record.value);
            CheckFirstImage(*this, pixels);
            const Shape image = BeforeCrop(pixels.shape());
            if (const auto misfit = transformer->FindMisfit(image)) {
              FailMisfit(*this, *misfit, RecordName(source, record.key));
            }
            return Survey{
                .sample = transformer->OutputShape(image),
                .boxes = reader.has_type() || param().annotated_data_param().has_anno_type(),
                .bytes = pixels.bytes != nullptr};
          });
      WithFieldContext(*this, "annotated_data_param.label_map_file",
                       [&] { return LabelsOf(param()); });
      return survey;
    });
  }

  // Returns the most rows of boxes that a batch can have.
  int64_t MostRows() const {
    const BoxBounds bounds = WithFieldContext(*this, "data_param.source", [&] {
      return bounds_->Find(param(), *records_, shard_.Get());
    });
    // A sample that replaces a bad one is in the batch twice.
    const bool replaces = param().pipeline_param().on_bad_sample() != PipelineParameter::ERROR;
    const uint64_t most =
        replaces ? param().data_param().batch_size() * bounds.record : bounds.batch;
    return static_cast<int64_t>(std::max<uint64_t>(1, most));
  }

  // Returns the size of an image before the crop. Random crops and canvases without resizing have
  // any size; the crop after them must fit.
  Shape BeforeCrop(const Shape& image) const {
    const TransformationParameter& transform = param().transform_param();
    if (!transform.has_resize_param()) return image;
    const Fit fit =
        FitTo(transform.resize_param(), static_cast<int>(image[1]), static_cast<int>(image[2]));
    return {image[0], fit.height, fit.width};
  }

  const ImageForm form_;
  const std::shared_ptr<OpenedOnce> records_;
  PlannedShard shard_;
  const std::shared_ptr<BoundedOnce> bounds_ = std::make_shared<BoundedOnce>();
};

std::vector<BadSample> BadSamples() {
  const std::string data = "data_param { source: 'no/such/set' batch_size: 2 } ";
  const auto sampler = [&](const std::string& text) {
    return data + "annotated_data_param { batch_sampler { " + text + " } } " +
           "transform_param { resize_param { height: 4 width: 4 } }";
  };
  const auto transform = [&](const std::string& text) {
    return data + "transform_param { " + text + " }";
  };
  std::vector<std::pair<std::string, std::string>> cases = {
      {"data_param { batch_size: 2 }", "source is missing"},
      {"data_param { source: 'no/such/set' }", "batch_size must be 1 or more"},
      {"data_param { source: 'no/such/set' batch_size: 2 prefetch: 0 }", "prefetch is 0"},
      {data, "no/such/set"},
      {sampler("sampler { min_scale: 0 }"), "sampler.min_scale is 0"},
      {sampler("sampler { min_scale: 0.5 max_scale: 0.3 }"), "sampler.max_scale is 0.3"},
      {sampler("sampler { max_scale: 1.5 }"), "sampler.max_scale is 1.5"},
      {sampler("sampler { min_aspect_ratio: 2 }"), "sampler.max_aspect_ratio is 1"},
      {sampler("max_trials: 2000000"), "max_trials is 2e+06"},
      {data + "annotated_data_param { batch_sampler { } }", "add transform_param { resize_param"},
      {transform("expand_param { max_expand_ratio: 2 }"), "add transform_param { resize_param"},
      {transform("expand_param { max_expand_ratio: 0.5 } crop_size: 2"), "max_expand_ratio is 0.5"},
      {transform("resize_param { height: 4 }"), "width is 0"},
      {transform("resize_param { height: 4 width: 4 height_scale: 3 }"), "height_scale is 3"},
      {transform("distort_param { hue_prob: 2 }"), "hue_prob is 2"},
      {transform("distort_param { contrast_lower: 2 contrast_upper: 1 }"), "contrast_upper is 1"},
      {transform("bgr2rgb: true"), "bgr2rgb"},
  };
  std::vector<BadSample> samples;
  for (auto& [text, expect] : cases) {
    samples.push_back({text, {}, expect});
  }
  return samples;
}

}  // namespace

void RegisterAnnotatedData(Registry& registry) {
  LayerType type;
  type.name = "AnnotatedData";
  type.category = "input";
  type.origin = "SSD";
  type.summary =
      "Images with boxes from AnnotatedDatum records of an LMDB or a LevelDB (docs/data_sets.md), "
      "with the random crops, canvases and colours that detectors are trained with. Order, caches "
      "and bad records are as in Data: `shuffle` and shuffle_buffer of pipeline_param permute the "
      "records again each epoch. Needs a build with OpenCV.";
  type.formula =
      "each record: distort_param, expand_param, one crop of batch_sampler, resize_param, "
      "noise_param, crop_size or crop_h and crop_w, mirror; output = (pixel - mean) * scale. Boxes "
      "follow the image";
  type.output_docs = {
      StrCat("images: batch x C x H x W", kBytesDoc),
      "boxes (optional): 1 x 1 x B x 8 with image, label, instance, xmin, ymin, "
      "xmax, ymax, difficult; corners in units of the image, 0 to 1. B changes from batch to "
      "batch. Planned is the largest B of all batches; for this, all records (not their images) "
      "are read when the net is built. A batch without boxes has one row of -1. "
      "Records without annotations give their labels (batch)"};
  type.differences = {
      ("Images are not compressed to JPEG again between the steps, and raw pixels go through all "
       "of them."),
      ("All parts of a sample_constraint must hold for one object; the fork lets a failed later "
       "part pass."),
      ("The canvas of expand_param is filled with mean_value, or the average of mean_file in each "
       "channel, or 0."),
      ("A mean image is as large as the image before crop_size, and is read at the unmirrored "
       "place, as Caffe does."),
      "Boxes are projected by the whole pixels of a crop; the fork uses the fractions.",
      ("FIT_SMALL_SIZE must give one size, or be followed by a crop; the fork runs it with batches "
       "of one."),
      ("A label that is not in label_map_file, a box outside of its image or with swapped corners, "
       "and a plain Datum are errors that name the record."),
      ("The files at `source` decide the kind of data set, not `backend`. Tar shards and HDF5 hold "
       "no boxes.")};
  type.param_fields = {"data_param", "annotated_data_param", "transform_param", "pipeline_param"};
  type.unread_fields = {"data_param.scale",     "data_param.mean_file",
                        "data_param.crop_size", "data_param.mirror",
                        "data_param.precache",  "data_param.force_encoded_color",
                        "data_param.side",      "data_param.parser_threads"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "data_param { source: \"voc_train_lmdb\" backend: LMDB batch_size: 32 }\n"
      "transform_param { mirror: true mean_value: 104 mean_value: 117 mean_value: 123 resize_param "
      "{ prob: 1 resize_mode: WARP height: 300 width: 300 } }\n"
      "annotated_data_param { batch_sampler { max_sample: 1 max_trials: 1 } label_map_file: "
      "\"labelmap_voc.prototxt\" }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const AnnotatedData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
