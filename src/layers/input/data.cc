// Data: images and labels from a database of Datum records, read and transformed ahead of the net.
// Outputs: images (batch x C x H x W) and, where a second top is given, labels (batch).
// Records come in the order of their keys and wrap to the first. The shape is that of the first
// record after cropping; a record that differs is an error. No input, no gradient.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/datum_batches.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr uint32_t kMaxPrefetch = 4096;  // batches
constexpr uint32_t kMaxDecodeThreads = 256;

// Where the data layer of one session stands. The prefetcher starts with the first batch that is
// asked for, so that a net which is only looked at starts no threads.
class DataState final : public LayerSessionState {
 public:
  DataState(const LayerParameter& param, Phase phase, uint64_t seed, Shard shard)
      : param_(param), phase_(phase), seed_(seed), shard_(shard) {}

  void Next(uint64_t layer_id, std::span<const TensorView> outputs) {
    if (!prefetcher_) Open(layer_id, outputs);
    try {
      prefetcher_->Pop(outputs);
    } catch (const Error& error) {  // thrown by a thread that does not know the layer
      Problem problem = error.problems().front();
      problem.where.layer = param_.name();
      throw Error(std::move(problem));
    }
    position_ = prefetcher_->position();
  }

  void Save(LayerState* state) const override {
    state->set_position(position_);
    if (records_ > 0) state->set_epoch(shard_.Ordinal(position_) / records_);
  }

  void Restore(const LayerState& state) override {
    position_ = state.position();
    if (prefetcher_) prefetcher_->Restore(position_);
  }

  int64_t EpochSize() const override {
    const uint64_t records =
        records_ > 0 ? records_ : LmdbReader(param_.data_param().source()).count();
    return static_cast<int64_t>(records / shard_.world);
  }

 private:
  void Open(uint64_t layer_id, std::span<const TensorView> outputs) {
    const DataParameter& data = param_.data_param();
    const TransformationParameter& transform = param_.transform_param();
    PrefetchOptions options{.outputs = {},
                            .depth = data.prefetch(),
                            .decode_threads = static_cast<int>(data.threads())};
    for (const TensorView& output : outputs) {
      options.outputs.push_back({output.shape(), output.dtype()});
    }
    const Shape& images = outputs[0].shape();
    DatumDecoder::Options decoding{.data_set = data.source(),
                                   .sample = {images[1], images[2], images[3]},
                                   .dtype = outputs[0].dtype(),
                                   .seed = seed_,
                                   .layer_id = layer_id};
    if (transform.random_seed() >= 0)
      decoding.seed = static_cast<uint64_t>(transform.random_seed());
    auto transformer = std::make_shared<const Transformer>(transform, phase_, param_.name());
    auto source = std::make_unique<LmdbSource>(data.source(), shard_);
    records_ = source->count();
    prefetcher_ = std::make_unique<Prefetcher>(
        std::move(options), std::move(source),
        [decoding, transformer] { return std::make_unique<DatumDecoder>(decoding, transformer); });
    prefetcher_->Restore(position_);
  }

  const LayerParameter param_;
  const Phase phase_;
  const uint64_t seed_;
  const Shard shard_;
  uint64_t position_ = 0;
  uint64_t records_ = 0;  // of the data set; 0 until it is open
  std::unique_ptr<Prefetcher> prefetcher_;
};

class Data final : public Layer {
 public:
  explicit Data(const LayerParameter& param) : Layer(param) {
    const DataParameter& data = param.data_param();
    if (data.source().empty()) {
      FailField(*this, "data_param.source",
                "data_param.source is missing: give the path of an LMDB");
    }
    if (data.batch_size() == 0) {
      FailField(*this, "data_param.batch_size", "data_param.batch_size must be 1 or more");
    }
    if (data.prefetch() == 0 || data.prefetch() > kMaxPrefetch) {
      FailField(*this, "data_param.prefetch",
                StrCat("data_param.prefetch is ", data.prefetch(), ", but must be 1 to ",
                       kMaxPrefetch, " batches"));
    }
    if (data.threads() > kMaxDecodeThreads) {
      FailField(*this, "data_param.threads",
                StrCat("data_param.threads is ", data.threads(), ", but must be 0 to ",
                       kMaxDecodeThreads));
    }
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
    static_cast<DataState*>(args.state)->Next(args.layer_id, args.outputs);
  }

  // A session is one process of one so far; in TRAIN, rank and world belong into the shard here.
  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<DataState>(param(), phase, context.seed(), Shard{});
  }

 private:
  // The shape, after cropping, of the first record.
  Shape FirstSample(Phase phase) const {
    try {
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
    } catch (const Error& error) {
      Problem problem = error.problems().front();
      problem.where.layer = param().name();
      if (problem.where.field.empty()) problem.where.field = "data_param.source";
      throw Error(std::move(problem));
    }
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
      "Of data_param, only source, batch_size, prefetch and threads are looked at: scale, "
      "mean_file, "
      "crop_size and mirror belong into transform_param, and rand_skip, force_encoded_color, cache "
      "and shuffle have no effect.";
  type.formula = "output = (pixel - mean) * scale, cropped and mirrored as transform_param says";
  type.param_fields = {"data_param", "transform_param"};
  type.unread_fields = {"data_param.scale",     "data_param.mean_file",
                        "data_param.crop_size", "data_param.mirror",
                        "data_param.rand_skip", "data_param.cache",
                        "data_param.shuffle",   "data_param.force_encoded_color"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
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
