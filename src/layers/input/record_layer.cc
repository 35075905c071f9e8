#include "layers/input/record_layer.h"

#include "core/rng.h"
#include "crema.pb.h"
#include "data/records/cached_records.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"

namespace crema {
namespace {

OrderOptions OrderOf(const Pipeline& pipeline, uint64_t seed, const std::string& layer) {
  using Kind = OrderOptions::Kind;
  OrderOptions order{.block = pipeline.shuffle_buffer, .seed = seed, .layer_id = HashName(layer)};
  if (pipeline.shuffle) order.kind = Kind::kShuffled;
  if (pipeline.shuffle_buffer > 0) order.kind = Kind::kBlocks;
  return order;
}

}  // namespace

OrderOptions OrderOf(const LayerParameter& param, uint64_t seed) {
  return OrderOf(MakePipeline(param, PipelineFieldsOf(param.data_param())), seed, param.name());
}

RecordStream OpenStream(const LayerParameter& param, OpenedOnce& records, uint64_t seed,
                        const Shard& shard) {
  const Pipeline pipeline = MakePipeline(param, PipelineFieldsOf(param.data_param()));
  std::unique_ptr<RecordReader> reader = records.NewReader();
  RecordStream stream{.options = pipeline.options, .source = nullptr, .decoded = nullptr};
  if (pipeline.cache == PipelineParameter::ENCODED) {
    reader = CacheRecords(std::move(reader), MakeCaches(pipeline).encoded);
  } else if (pipeline.cache == PipelineParameter::DECODED) {
    stream.decoded =
        std::make_shared<DecodedCache>(pipeline.cache_bytes, pipeline.options.deferred_warnings);
  }
  const DataSetSource::Options options{
      .shard = shard, .order = OrderOf(pipeline, seed, param.name()), .decoded = stream.decoded};
  stream.source = std::make_unique<DataSetSource>(std::move(reader), options);
  return stream;
}

PrefetchedState::Options RecordState(const LayerParameter& param,
                                     const std::shared_ptr<OpenedOnce>& records, uint64_t seed,
                                     const Shard& shard, OpenBatches open) {
  return {
      .layer = param.name(),
      .first = DrawSkip(param.data_param().rand_skip(), seed, param.name()),
      .open =
          [param, records, seed, shard, open = std::move(open)](std::span<const BlobSpec> outputs) {
            return open(OpenStream(param, *records, seed, shard), outputs);
          },
      .epoch_size = [records, shard] { return EpochOf(shard, records->Count()); }};
}

}  // namespace crema
