// Data: images and labels from a database of Datum records, read and transformed ahead of the net.
// Outputs: images (batch x C x H x W) and, where a second top is given, labels (batch).
// Records come in the order of their keys and wrap to the first. The shape is that of the first
// record after cropping; a record that differs is an error. No input, no gradient.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "data/datum_batches.h"
#include "graph/registry.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

class Data final : public Layer {
 public:
  explicit Data(const LayerParameter& param) : Layer(param) {
    const DataParameter& data = param.data_param();
    if (data.source().empty()) {
      FailField(*this, "data_param.source",
                "data_param.source is missing: give the path of an LMDB");
    }
    CheckBatchSize(*this, "data_param.batch_size", data.batch_size());
    CheckPrefetch(*this, "data_param.prefetch", data.prefetch());
    CheckThreads(*this, "data_param.threads", data.threads());
    ValidateTransform(param.transform_param(), param.name());
  }

  LayerInfo Infer(const InferContext& context) const override {
    const int64_t batch = param().data_param().batch_size();
    const Shape sample = FirstSample(context.phase);
    LayerInfo info;
    info.outputs.push_back({Shape{batch, sample[0], sample[1], sample[2]}, context.dtype});
    if (context.output_count > 1) info.outputs.push_back({Shape{batch}, context.dtype});
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<PrefetchedState*>(args.state)->Next(args.outputs);
  }

  // A session is one process of one so far; in TRAIN, rank and world belong into the shard here.
  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    const Shard shard;
    const std::string& source = param().data_param().source();
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .first = DrawSkip(param().data_param().rand_skip(), context.seed(), param().name()),
        .open =
            [param = param(), phase, seed = context.seed(),
             shard](std::span<const BlobSpec> outputs) {
              return Open(param, phase, seed, shard, outputs);
            },
        .epoch_size = [source, shard] { return LmdbReader(source).count() / shard.world; }});
  }

 private:
  static BatchReader Open(const LayerParameter& param, Phase phase, uint64_t seed, Shard shard,
                          std::span<const BlobSpec> outputs) {
    const DataParameter& data = param.data_param();
    const TransformationParameter& transform = param.transform_param();
    auto transformer = std::make_shared<const Transformer>(transform, phase, param.name());
    const SampleWriter writer(WriterOptions(outputs[0], transform, seed, param.name()),
                              std::move(transformer));
    return {.options = {.outputs = {},
                        .depth = data.prefetch(),
                        .decode_threads = static_cast<int>(data.threads())},
            .source = std::make_unique<LmdbSource>(data.source(), shard),
            .make_decoder = [writer, set = data.source()] {
              return std::make_unique<DatumDecoder>(set, writer);
            }};
  }

  // The shape, after cropping, of the first record.
  Shape FirstSample(Phase phase) const {
    return Naming(*this, "data_param.source", [&] {
      const std::string& source = param().data_param().source();
      CheckBackend(source);
      LmdbReader reader(source);
      const Transformer transformer(param().transform_param(), phase, param().name());
      DatumReader decoder(source, transformer.color_mode());
      const LmdbRecord record = reader.Next();
      const Shape image = decoder.Read(record.key, record.value).shape();
      if (const auto misfit = transformer.FindMisfit(image)) {
        FailField(*this, misfit->field, misfit->message);
      }
      return transformer.OutputShape(image);
    });
  }

  // LEVELDB is the field's default, so what lies at the path decides, not what the text says.
  void CheckBackend(const std::string& source) const {
    std::error_code ignored;
    const bool leveldb = std::filesystem::exists(source + "/CURRENT", ignored);
    if (!leveldb || LooksLikeLmdb(source)) return;
    Where where;
    where.field = "data_param.backend";
    Fail(ErrorCode::kUnsupported,
         StrCat("'", source,
                "' is a LevelDB, which this version cannot read: convert the data set "
                "to LMDB and set `backend: LMDB`"),
         std::move(where));
  }
};

}  // namespace

void RegisterData(Registry& registry) {
  LayerType type;
  type.name = "Data";
  type.category = "input";
  type.summary =
      "Images and labels from an LMDB of Datum records, in the order of the keys, again and again. "
      "A folder with data.mdb is read as LMDB whatever `backend` says; LevelDB is not read yet. "
      "rand_skip starts at a random record. In nets of the present format, scale, mean_file, "
      "crop_size and mirror belong into transform_param; in older formats they are moved there.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.param_fields = {"data_param", "transform_param"};
  type.unread_fields = {"data_param.scale",     "data_param.mean_file",
                        "data_param.crop_size", "data_param.mirror",
                        "data_param.cache",     "data_param.precache",
                        "data_param.shuffle",   "data_param.force_encoded_color",
                        "data_param.side",      "data_param.parser_threads"};
  type.output_docs = {"images: batch x C x H x W", "labels, where there is a second top: batch"};
  type.differences = {
      "rand_skip is read (Caffe 1.0 leaves it out): 0 .. rand_skip - 1 records are skipped.",
      "What lies at `source` decides about the kind of database, not `backend`.",
      "A record of another shape than the first is an error naming its key; crop_size can cut "
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
      {.prototxt = "data_param { batch_size: 4 }", .input_shapes = {}, .expect = "source"},
      {.prototxt = "data_param { source: 'no/such/set' }",
       .input_shapes = {},
       .expect = "batch_size"},
      {.prototxt = "data_param { source: 'no/such/set' batch_size: 4 prefetch: 0 }",
       .input_shapes = {},
       .expect = "prefetch"},
      {.prototxt = "data_param { source: 'no/such/set' batch_size: 4 backend: LMDB }",
       .input_shapes = {},
       .expect = "no/such/set"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
