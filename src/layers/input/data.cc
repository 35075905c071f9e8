// Data: images and labels from a data set of Datum records, read and transformed ahead of the net.
// Outputs: images (batch x C x H x W) and, with a second top, labels (batch).
// Records come in the order of their keys, wrapping to the first, or shuffled. The shape is that of
// the first good record after cropping; a record of another shape is an error. No input, no
// gradient.
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/datum_batches.h"
#include "graph/registry.h"
#include "layers/input/image_form.h"
#include "layers/input/mixing.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"
#include "layers/input/record_layer.h"

namespace crema {
namespace {

class Data final : public PrefetchedLayer, public ByteSource {
 public:
  explicit Data(const LayerParameter& param)
      : Data(param, WrittenForm(param), std::make_shared<OpenedOnce>(param.data_param().source())) {
    const DataParameter& data = param.data_param();
    if (data.source().empty()) {
      FailField(*this, "data_param.source",
                "data_param.source is missing: give the path of an LMDB, a LevelDB or tar shards");
    }
    CheckBatchSize(*this, "data_param.batch_size", data.batch_size());
    CheckPipeline(*this, PipelineFieldsOf(data));
    CheckByteOutput(*this);
    ValidateTransform(param.transform_param(), param.name(), TransformSteps::kAugmented);
    CheckMixing(*this, data.batch_size());
  }
  // For parameters that the other constructor has checked.
  Data(const LayerParameter& param, const ImageForm& form, std::shared_ptr<OpenedOnce> records)
      : PrefetchedLayer(param), form_(form), records_(std::move(records)) {}

  std::string WhyNoBytes(Phase phase) const override {
    std::string why = WhyNotUploaded(param(), phase);
    if (why.empty() && !FirstSample(phase, false).bytes) why = kFirstHoldsFloats;
    return why;
  }

  ByteParts Part() const override {
    ByteParts parts = PartsAfterSource(param());
    parts.source = std::make_unique<const Data>(param(), UploadedForm(param()), records_);
    return parts;
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    const int64_t batch = param().data_param().batch_size();
    const bool labelled = form_.TopsOf(context) > 1;
    const Shape sample = FirstSample(context.phase, labelled).shape;
    const Shape labels = LabelShape(*this, context, batch);
    LayerInfo info = form_.InfoOf(context, batch, sample, labels);
    info.external_output = ExternalUnlessMixed(*this, context);
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    const uint64_t seed = context.seed();
    return std::make_unique<PrefetchedState>(
        RecordState(param(), records_, seed, shard_.Get(),
                    [param = param(), form = form_, phase, seed](
                        RecordStream stream, std::span<const BlobSpec> outputs) {
                      return Open(param, form, phase, seed, std::move(stream), outputs);
                    }));
  }

 private:
  struct First {
    Shape shape;  // after cropping
    bool bytes;   // otherwise floats
  };

  static BatchReader Open(const LayerParameter& param, const ImageForm& form, Phase phase,
                          uint64_t seed, RecordStream stream, std::span<const BlobSpec> outputs) {
    const TransformationParameter& transform = param.transform_param();
    auto transformer = std::make_shared<const Transformer>(transform, phase, param.name(),
                                                           TransformSteps::kAugmented);
    BatchFiller::Options writing = form.BatchFillerOptions(outputs, transform, seed, param.name());
    AddMixing(param, phase, &writing, &stream.options);
    const BatchFiller filler(std::move(writing), std::move(transformer));
    return {.options = std::move(stream.options),
            .source = std::move(stream.source),
            .make_decoder = [filler, set = param.data_param().source(), decoded = stream.decoded] {
              return std::make_unique<DatumDecoder>(set, filler, decoded);
            }};
  }

  // Returns facts about the first good record. Throws if it does not fit the parameters.
  First FirstSample(Phase phase, bool labels) const {
    return WithFieldContext(*this, "data_param.source", [&] {
      const std::string& source = param().data_param().source();
      const auto reader = records_->NewReader();
      if (labels && !reader->labelled()) {
        FailField(*this, "data_param.source",
                  StrCat("'", source, "' has no labels (NAME.cls files): remove the second top"));
      }
      const Transformer transformer(param().transform_param(), phase, param().name(),
                                    TransformSteps::kAugmented);
      DatumReader decoder(source, transformer.color_mode());
      return LookAtRecords(param().pipeline_param(), *reader, [&](const KeyedRecord& record) {
        const PixelView first = decoder.Read(record.key, record.value);
        const Shape image = first.shape();
        CheckFirstImage(*this, first);
        CheckBytes(transformer, first);
        if (const auto misfit = transformer.FindMisfit(image)) {
          FailMisfit(*this, *misfit, RecordName(source, record.key));
        }
        return First{transformer.OutputShape(image), first.bytes != nullptr};
      });
    });
  }

  void CheckBytes(const Transformer& transformer, const PixelView& image) const {
    if (image.bytes != nullptr) return;
    const auto augmenter = SampleAugmenter::Make(transformer, {.channels = image.channels});
    if (!augmenter || !augmenter->Changes(image.shape())) return;
    FailField(
        *this, "transform_param.augment_param",
        StrCat("'", param().data_param().source(),
               "' holds floats; augment_param needs images of bytes for all but mixup and cutmix"));
  }

  const ImageForm form_;
  const std::shared_ptr<OpenedOnce> records_;
  PlannedShard shard_;
};

}  // namespace

void RegisterData(Registry& registry) {
  LayerType type;
  type.name = "Data";
  type.category = "input";
  type.summary =
      "Images and labels from Datum records of an LMDB or a LevelDB, or from tar shards of image "
      "files (docs/data_sets.md). Records come in the order of the keys, or, with `shuffle` of "
      "pipeline_param or data_param, in another random order each epoch. shuffle_buffer: N "
      "shuffles within blocks of N records and reads the blocks in order. rand_skip starts at a "
      "random record. scale, mean_file, crop_size and mirror are fields of transform_param; nets "
      "of older formats are converted. docs/augmentation.md describes augment_param.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.param_fields = {"data_param", "transform_param", "pipeline_param"};
  type.unread_fields = {"data_param.scale",     "data_param.mean_file",
                        "data_param.crop_size", "data_param.mirror",
                        "data_param.precache",  "data_param.force_encoded_color",
                        "data_param.side",      "data_param.parser_threads"};
  type.output_docs = {StrCat("images: batch x C x H x W", kBytesDoc),
                      "labels (optional): batch; in TRAIN batch x classes with mixup or cutmix"};
  type.differences = {
      "rand_skip skips 0 .. rand_skip - 1 records; Caffe 1.0 ignores it.",
      "The files at `source` decide the kind of data set, not `backend`. Besides databases it may "
      "be a .tar file, a folder of them, or a pattern such as train-{000..009}.tar.",
      "Records can be shuffled, in an order that depends on seed, name of the layer and epoch "
      "only.",
      "A record of another shape than the first is an error that names its key; crop_size can cut "
      "images of several sizes to one."};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "data_param { source: \"train_lmdb\" backend: LMDB batch_size: 64 }\n"
      "transform_param { scale: 0.00390625 mirror: true crop_size: 28 }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const Data>(p); };
  type.bad_samples = {
      {"data_param { batch_size: 4 }", {}, "source"},
      {"data_param { source: 'no/such/set' }", {}, "batch_size"},
      {"data_param { source: 'no/such/set' batch_size: 4 prefetch: 0 }", {}, "prefetch"},
      {"data_param { source: 'no/such/set' batch_size: 4 backend: LMDB }", {}, "no/such/set"},
      {"data_param { source: 'no/such/{0..' batch_size: 4 }", {}, "is not closed"},
      {"data_param { source: 'x' batch_size: 4 } pipeline_param { prefetch: 0 }",
       {},
       "pipeline_param.prefetch is 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
