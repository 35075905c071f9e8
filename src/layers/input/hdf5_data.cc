// HDF5Data: rows of datasets of HDF5 files, unchanged. The tops have the names of the datasets;
// output i is (batch, axes of a row of dataset i). Batches span files and wrap to the first. With
// `shuffle`, files and rows have another order in each epoch. No input, no gradient.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/hdf5_batches.h"
#include "graph/registry.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

Hdf5Set OpenSet(const LayerParameter& param) {
  try {
    return Hdf5Set(param.hdf5_data_param().source(), {param.top().begin(), param.top().end()});
  } catch (const Error& error) {
    Problem problem = error.problems().front();
    problem.where.layer = param.name();
    problem.where.field = "hdf5_data_param.source";
    throw Error(std::move(problem));
  }
}

// Throws if the files have changed since planning.
void CheckRows(const Hdf5Set& set, std::span<const BlobSpec> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Shape row = Shape(outputs[i].shape.dims().subspan(1));
    if (row == set.row_shapes()[i]) continue;
    Fail(ErrorCode::kDataLoss,
         StrCat("a row of the dataset '", set.datasets()[i], "' was ", ToString(row),
                " when the net was built, and is ", ToString(set.row_shapes()[i]), " now"));
  }
}

BatchReader Open(const LayerParameter& param, uint64_t seed, const Shard& shard,
                 std::span<const BlobSpec> outputs) {
  const Pipeline pipeline = MakePipeline(param, PipelineFieldsOf(param.hdf5_data_param()));
  Hdf5Set set = OpenSet(param);
  CheckRows(set, outputs);
  const DType dtype = outputs[0].dtype;
  const std::vector<size_t> row_bytes = RowBytes(set, dtype);
  return {.options = pipeline.options,
          .source = std::make_unique<Hdf5Source>(
              std::move(set),
              Hdf5RowReader::Options{.dtype = dtype,
                                     .shuffle = pipeline.shuffle,
                                     .seed = seed,
                                     .layer_id = HashName(param.name())},
              shard),
          .make_decoder = [row_bytes] { return std::make_unique<Hdf5Decoder>(row_bytes); }};
}

class HDF5Data final : public PrefetchedLayer {
 public:
  explicit HDF5Data(const LayerParameter& param) : PrefetchedLayer(param) {
    const HDF5DataParameter& data = param.hdf5_data_param();
    if (param.has_transform_param()) {
      FailField(*this, "transform_param",
                "HDF5Data does not transform: remove transform_param, and write the transformed "
                "values into the files");
    }
    if (data.source().empty()) {
      FailField(*this, "hdf5_data_param.source",
                "hdf5_data_param.source is missing: give a text file that lists HDF5 files");
    }
    CheckBatchSize(*this, "hdf5_data_param.batch_size", data.batch_size());
    CheckPipeline(*this, PipelineFieldsOf(data));
    RefuseByteOutput(*this, "its datasets are values");
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    const Hdf5Set set = OpenSet(param());
    LayerInfo info;
    for (const Shape& row : set.row_shapes()) {
      std::vector<int64_t> dims{param().hdf5_data_param().batch_size()};
      dims.insert(dims.end(), row.dims().begin(), row.dims().end());
      info.outputs.push_back({Shape(dims), context.dtype});
    }
    info.external_output.assign(info.outputs.size(), true);
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context, Phase) const override {
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .open =
            [param = param(), seed = context.seed(), shard = shard_.Get()](
                std::span<const BlobSpec> outputs) { return Open(param, seed, shard, outputs); },
        .epoch_size = [param = param(),
                       shard = shard_.Get()] { return EpochOf(shard, OpenSet(param).rows()); }});
  }

 private:
  PlannedShard shard_;
};

}  // namespace

void RegisterHDF5Data(Registry& registry) {
  LayerType type;
  type.name = "HDF5Data";
  type.category = "input";
  type.summary =
      "Rows of HDF5 datasets: one dataset for each top, with its name. `source` lists the files; "
      "its path, and those in it, are relative to the current folder. Files of up to 64 MiB of "
      "values are read as a whole; larger ones are read in blocks, or with shuffle row by row.";
  type.formula = "output[n] = row of the dataset, numbers converted to the type of the net";
  type.output_docs = {"one for each dataset: batch_size x the shape of a row"};
  type.differences = {
      "Files may differ in their number of rows; a dataset that is missing or of another shape is "
      "an error that names file and dataset."};
  type.param_fields = {"hdf5_data_param", "pipeline_param"};
  type.unread_fields = {"pipeline_param.shuffle_buffer", "pipeline_param.cache",
                        "pipeline_param.cache_mb"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = Arity::kAny};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "hdf5_data_param { source: \"train_h5_files.txt\" batch_size: 64 shuffle: true }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const HDF5Data>(p); };
  type.bad_samples = {
      {"hdf5_data_param { batch_size: 4 }", {}, "source"},
      {"hdf5_data_param { source: 'no/such/list' }", {}, "batch_size"},
      {"hdf5_data_param { source: 'no/such/list' batch_size: 4 }", {}, "no/such/list"},
      {.prototxt =
           "hdf5_data_param { source: 'no/such/list' batch_size: 4 } transform_param { scale: 2 }",
       .input_shapes = {},
       .expect = "transform_param"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
