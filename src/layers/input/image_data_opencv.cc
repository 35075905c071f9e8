// ImageData: images and labels from a list of files (data/lists/image_list.h) or a folder of
// classes. Outputs: images (batch x C x H x W) and, with a second top, labels (batch, or batch x
// label_count if that is more than 1). The files are read repeatedly, in the order of the list or,
// with `shuffle`, in another order in each epoch. No input, no gradient.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/image_batches.h"
#include "graph/registry.h"
#include "layers/input/first_sample.h"
#include "layers/input/image_form.h"
#include "layers/input/mixing.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

ImageShaping Shaping(const ImageDataParameter& data) {
  return {.mode = data.is_color() ? ColorMode::kColor : ColorMode::kGray,
          .height = static_cast<int>(data.new_height()),
          .width = static_cast<int>(data.new_width()),
          .short_side = static_cast<int>(data.short_side())};
}

std::shared_ptr<const ImageList> OpenList(const LayerParameter& param) {
  const ImageDataParameter& data = param.image_data_param();
  const size_t labels = data.has_label_count() ? data.label_count() : 0;
  return std::make_shared<const ImageList>(data.source(), data.root_folder(), labels);
}

class ImageData final : public PrefetchedLayer, public ByteSource {
 public:
  explicit ImageData(const LayerParameter& param) : ImageData(param, WrittenForm(param)) {
    const ImageDataParameter& data = param.image_data_param();
    if (data.source().empty()) {
      FailField(*this, "image_data_param.source",
                "image_data_param.source is missing: give a text file with lines `path label`, or "
                "a folder with a folder of images for each class");
    }
    CheckBatchSize(*this, "image_data_param.batch_size", data.batch_size());
    CheckPipeline(*this, PipelineFieldsOf(data));
    CheckByteOutput(*this);
    CheckLabelCount(data);
    CheckOneLabel(data);
    CheckSize(data);
    if (data.label_type() == ImageDataParameter::PIXEL) {
      FailField(*this, "image_data_param.label_type",
                "label_type PIXEL (a label for each pixel) is not supported; use IMAGE or NONE");
    }
    ValidateTransform(param.transform_param(), param.name(), TransformSteps::kAugmented);
    CheckMixing(*this, data.batch_size());
  }
  // For parameters that the other constructor has checked.
  ImageData(const LayerParameter& param, const ImageForm& form)
      : PrefetchedLayer(param), form_(form) {}

  // Files always hold bytes; Infer reports whether they can be read.
  std::string WhyNoBytes(Phase phase) const override {
    std::string why = WhyNotUploaded(param(), phase);
    if (why.empty()) {
      Transformer(param().transform_param(), phase, param().name(), TransformSteps::kAugmented);
    }
    return why;
  }

  ByteParts Part() const override {
    ByteParts parts = PartsAfterSource(param());
    parts.source = std::make_unique<const ImageData>(param(), UploadedForm(param()));
    return parts;
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    CheckOutputs(context);
    const int64_t batch = param().image_data_param().batch_size();
    const Shape sample = FirstSample(context.phase);
    const Shape one_label = LabelShape(*this, context, batch);
    const int64_t labels = param().image_data_param().label_count();
    LayerInfo info =
        form_.InfoOf(context, batch, sample, labels > 1 ? Shape{batch, labels} : one_label);
    info.external_output = ExternalUnlessMixed(*this, context);
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .first = DrawSkip(param().image_data_param().rand_skip(), context.seed(), param().name()),
        .open =
            [param = param(), form = form_, phase, seed = context.seed(),
             shard = shard_.Get()](std::span<const BlobSpec> outputs) {
              return Open(param, form, phase, seed, shard, outputs);
            },
        .epoch_size =
            [param = param(), shard = shard_.Get()] {
              return EpochOf(shard, OpenList(param)->entries().size());
            }});
  }

 private:
  void CheckLabelCount(const ImageDataParameter& data) const {
    constexpr uint32_t kMost = 1 << 16;
    if (data.label_count() >= 1 && data.label_count() <= kMost) return;
    FailField(*this, "image_data_param.label_count",
              StrCat("label_count is ", data.label_count(), ", but must be 1 to ", kMost));
  }

  void CheckOneLabel(const ImageDataParameter& data) const {
    const AugmentParameter& augment = param().transform_param().augment_param();
    if (data.label_count() == 1 || (augment.mixup() == 0 && augment.cutmix() == 0)) return;
    FailField(*this, "image_data_param.label_count",
              StrCat("mixup and cutmix need one label a sample, its class, but label_count is ",
                     data.label_count()));
  }

  void CheckSize(const ImageDataParameter& data) const {
    constexpr uint32_t kMost = 1 << 16;
    if ((data.new_height() > 0) != (data.new_width() > 0)) {
      FailField(
          *this,
          data.new_height() > 0 ? "image_data_param.new_height" : "image_data_param.new_width",
          "new_height and new_width go together: give both, or none");
    }
    if (data.short_side() > 0 && data.new_height() > 0) {
      FailField(*this, "image_data_param.short_side",
                "short_side and new_height, new_width exclude each other: remove one");
    }
    if (std::max({data.new_height(), data.new_width(), data.short_side()}) > kMost) {
      FailField(*this, "image_data_param.new_height",
                StrCat("images are resized to at most ", kMost, " pixels a side"));
    }
  }

  void CheckOutputs(const InferContext& context) const {
    if (param().image_data_param().label_type() == ImageDataParameter::NONE &&
        form_.TopsOf(context) > 1) {
      FailField(*this, "image_data_param.label_type",
                "label_type is NONE, so there is no second top: remove it, or set IMAGE");
    }
  }

  static BatchReader Open(const LayerParameter& param, const ImageForm& form, Phase phase,
                          uint64_t seed, const Shard& shard, std::span<const BlobSpec> outputs) {
    const ImageDataParameter& data = param.image_data_param();
    const auto list = OpenList(param);
    auto transformer = std::make_shared<const Transformer>(
        param.transform_param(), phase, param.name(), TransformSteps::kAugmented);
    Pipeline pipeline = MakePipeline(param, PipelineFieldsOf(data));
    BatchFiller::Options writing =
        form.BatchFillerOptions(outputs, param.transform_param(), seed, param.name());
    AddMixing(param, phase, &writing, &pipeline.options);
    const BatchFiller filler(std::move(writing), std::move(transformer));
    const SampleCaches caches = MakeCaches(pipeline);
    return {.options = pipeline.options,
            .source = std::make_unique<ImageFileSource>(
                list, ImageFileSource::Options{.shard = shard,
                                               .shuffle = pipeline.shuffle,
                                               .caches = caches,
                                               .seed = seed,
                                               .layer_id = HashName(param.name())}),
            .make_decoder = [list, shaping = Shaping(data), filler, caches] {
              return std::make_unique<ImageFileDecoder>(list, shaping, filler, caches);
            }};
  }

  // Returns the shape of the first good image of the list after resizing and cropping.
  Shape FirstSample(Phase phase) const {
    return WithFieldContext(*this, "image_data_param.source", [&] {
      const auto list = OpenList(param());
      const Transformer transformer(param().transform_param(), phase, param().name(),
                                    TransformSteps::kAugmented);
      const auto count = [&] { return list->entries().size(); };
      return LookForFirst(param().pipeline_param(), count, [&](uint64_t entry) {
        const Shape shape = ShapeOfEntry(list, Shaping(param().image_data_param()), entry);
        if (const auto misfit = transformer.FindMisfit(shape)) {
          FailMisfit(*this, *misfit, list->Name(list->entries()[entry]));
        }
        return transformer.OutputShape(shape);
      });
    });
  }

  const ImageForm form_;
  PlannedShard shard_;
};

std::vector<BadSample> BadSamples() {
  return {
      {"", {}, "source is missing"},
      {"image_data_param { source: 'no/such/list' batch_size: 0 }",
       {},
       "batch_size must be 1 or more"},
      {"image_data_param { source: 'no/such/list' }", {}, "no/such/list"},
      {"image_data_param { source: 'no/such/list' new_height: 4 }",
       {},
       "new_height and new_width go together"},
      {.prototxt =
           "image_data_param { source: 'no/such/list' new_height: 4 new_width: 4 short_side: 4 }",
       .input_shapes = {},
       .expect = "short_side"},
      {"image_data_param { source: 'no/such/list' short_side: 4000000000 }", {}, "at most 65536"},
      {"image_data_param { source: 'no/such/list' threads: 1000 }", {}, "threads is 1000"},
      {"image_data_param { source: 'no/such/list' label_count: 0 }", {}, "label_count is 0"},
      {"image_data_param { source: 'no/such/list' } pipeline_param { prefetch: 0 }",
       {},
       "pipeline_param.prefetch is 0"},
      {"image_data_param { source: 'no/such/list' } pipeline_param { max_bad: 3 }",
       {},
       "max_bad has no effect"},
      {"image_data_param { source: 'no/such/list' label_type: PIXEL }", {}, "label_type PIXEL"},
      {"image_data_param { source: 'no/such/list' label_type: NONE }", {}, "label_type is NONE", 2},
      {"image_data_param { source: 'no/such/list' } transform_param { mean_file: 'm' "
       "mean_value: 1 }",
       {},
       "mean_file and mean_value"},
  };
}

}  // namespace

void RegisterImageData(Registry& registry) {
  LayerType type;
  type.name = "ImageData";
  type.category = "input";
  type.summary =
      "Images and labels, read and decoded ahead of the net. `source` is a text file with lines of "
      "`path label`, a .csv file with lines of `path,label` (fields may be quoted, and the first "
      "line may be a heading), or a folder with a folder of images for each class. Classes are "
      "labelled from 0 in the order of their names. With label_count, each line has this number of "
      "labels, which may have fractions. Needs a build with OpenCV.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.output_docs = {
      StrCat("images: batch x C x H x W, as large as the first image after resizing and cropping; "
             "three channels (blue, green, red), or one if is_color is false",
             kBytesDoc),
      "labels (optional): batch, or batch x label_count if label_count is above 1; in TRAIN batch "
      "x classes with mixup or cutmix"};
  type.differences = {
      "A label that is not a whole number is an error with its line; Caffe reads 0.",
      "The second top may be left out.",
      "Random orders are drawn by seed, layer and epoch, so that a resumed run continues with the "
      "same ones; rand_skip may be larger than the list.",
      "An image of another size than the first (after new_height and new_width, or crop_size) is "
      "an error; Caffe allows another size in each batch."};
  type.param_fields = {"image_data_param", "transform_param", "pipeline_param"};
  type.unread_fields = {"image_data_param.scale",        "image_data_param.mean_file",
                        "image_data_param.crop_size",    "image_data_param.mirror",
                        "image_data_param.precache",     "image_data_param.dataset_share_per_node",
                        "image_data_param.min_height",   "image_data_param.min_width",
                        "image_data_param.ignore_label", "transform_param.force_color",
                        "transform_param.force_gray",    "pipeline_param.shuffle_buffer"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "image_data_param { source: \"train.txt\" root_folder: \"images/\" batch_size: 32 shuffle: "
      "true new_height: 256 new_width: 256 }\n"
      "transform_param { crop_size: 224 mirror: true mean_value: 104 mean_value: 117 mean_value: "
      "123 }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const ImageData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
