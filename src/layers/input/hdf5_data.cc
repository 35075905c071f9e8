// HDF5Data: rows of datasets of HDF5 files, unchanged. The tops have the names of the datasets;
// output i is (batch, axes of a row of dataset i). Batches span files and wrap to the first. With
// `shuffle`, files and rows have another order in each epoch. No input, no gradient.
//
// HDF5SequenceData: the same, but a row is a sequence, whose number of steps is the last top. A
// batch has rows of similar length, and axis 1 of the tops that have its steps is as long as the
// longest of them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
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

constexpr const char* kSequences = "HDF5SequenceData";

// Returns the top with the lengths of sequences; nothing for HDF5Data.
std::optional<size_t> LengthTop(const LayerParameter& param) {
  if (param.type() != kSequences) return std::nullopt;
  return static_cast<size_t>(param.top_size()) - 1;
}

BatchReader Open(const LayerParameter& param, Phase phase, uint64_t seed, const Shard& shard,
                 std::span<const BlobSpec> outputs) {
  const Pipeline pipeline = MakePipeline(param, PipelineFieldsOf(param.hdf5_data_param()));
  Hdf5Set set = OpenSet(param);
  CheckRows(set, outputs);
  const DType dtype = outputs[0].dtype;
  const std::vector<size_t> row_bytes = RowBytes(set, dtype);
  const std::optional<size_t> length = LengthTop(param);
  // The last batch of a test is smaller, which must not change the order.
  const bool by_length_alone = length && phase == TEST;
  const auto batch = static_cast<uint64_t>(outputs[0].shape[0]);
  return {
      .options = pipeline.options,
      .source = std::make_unique<Hdf5Source>(
          std::move(set),
          Hdf5RowReader::Options{.dtype = dtype,
                                 .shuffle = pipeline.shuffle && !by_length_alone,
                                 .seed = seed,
                                 .layer_id = HashName(param.name()),
                                 .length = length,
                                 .steps = length ? static_cast<uint64_t>(outputs[0].shape[1]) : 0,
                                 .group = batch * shard.world},
          shard),
      .make_decoder = [row_bytes] { return std::make_unique<Hdf5Decoder>(row_bytes); }};
}

class HDF5Data final : public Layer {
 public:
  explicit HDF5Data(const LayerParameter& param) : Layer(param), length_(LengthTop(param)) {
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
    if (length_) CheckSequences(info.outputs);
    info.dynamic_outputs = length_.has_value();
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<PrefetchedState*>(args.state)->Next(args);
    if (!length_) return;
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) { CutToLongest<T>(args); });
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<PrefetchedState>(PrefetchedState::Options{
        .layer = param().name(),
        .open =
            [param = param(), phase, seed = context.seed(),
             shard = shard_.Get()](std::span<const BlobSpec> outputs) {
              return Open(param, phase, seed, shard, outputs);
            },
        .epoch_size = [param = param(),
                       shard = shard_.Get()] { return EpochOf(shard, OpenSet(param).rows()); }});
  }

 private:
  void CheckSequences(std::span<const BlobSpec> outputs) const {
    if (outputs[0].shape.axes() < 2) {
      FailInputs(*this, StrCat("the rows of the first top, '", param().top(0),
                               "', must be sequences, steps x ..., but are single numbers"));
    }
    if (outputs[*length_].shape.count(1) == 1) return;
    FailInputs(*this, StrCat("the last top must be the number of steps of each row, but a row of '",
                             param().top(static_cast<int>(*length_)), "' is ",
                             ToString(Shape(outputs[*length_].shape.dims().subspan(1)))));
  }

  // Moves the first steps of all rows together. The tops of sequences are those whose rows have as
  // many steps as those of the first.
  template <typename T>
  void CutToLongest(const ForwardArgs& args) const {
    const auto place = [&](size_t i) {
      return args.external.empty() ? args.outputs[i].data<T>()
                                   : reinterpret_cast<T*>(args.external[i]);
    };
    const int64_t batch = args.outputs[0].shape()[0];
    const int64_t steps = args.outputs[0].shape()[1];
    const auto longest =
        static_cast<int64_t>(*std::max_element(place(*length_), place(*length_) + batch));
    for (size_t i = 0; i < args.outputs.size(); ++i) {
      const Shape& shape = args.outputs[i].shape();
      if (shape.axes() < 2 || shape[1] != steps) continue;
      const int64_t row = shape.count(1);
      const int64_t kept = row / steps * longest;
      for (int64_t n = 1; n < batch; ++n) {
        std::memmove(place(i) + n * kept, place(i) + n * row,
                     static_cast<size_t>(kept) * sizeof(T));
      }
      args.output_shapes[i] = shape.With(1, longest);
    }
  }

  const std::optional<size_t> length_;  // top with the lengths
  PlannedShard shard_;
};

// Returns what both types have.
LayerType CommonType(const char* name) {
  LayerType type;
  type.name = name;
  type.category = "input";
  type.param_fields = {"hdf5_data_param", "pipeline_param"};
  type.unread_fields = {"pipeline_param.shuffle_buffer", "pipeline_param.cache",
                        "pipeline_param.cache_mb"};
  type.inputs = {.min = 0, .max = 0};
  type.make = [](const LayerParameter& p) { return std::make_unique<const HDF5Data>(p); };
  return type;
}

}  // namespace

void RegisterHDF5Data(Registry& registry) {
  LayerType type = CommonType("HDF5Data");
  type.summary =
      "Rows of HDF5 datasets: one dataset for each top, with its name. `source` lists the files; "
      "its path, and those in it, are relative to the current folder. Files of up to 64 MiB of "
      "values are read as a whole; larger ones are read in blocks, or with shuffle row by row.";
  type.formula = "output[n] = row of the dataset, numbers converted to the type of the net";
  type.output_docs = {"one for each dataset: batch_size x the shape of a row"};
  type.differences = {
      "Files may differ in their number of rows; a dataset that is missing or of another shape is "
      "an error that names file and dataset."};
  type.outputs = {.min = 1, .max = Arity::kAny};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "hdf5_data_param { source: \"train_h5_files.txt\" batch_size: 64 shuffle: true }";
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

void RegisterHDF5SequenceData(Registry& registry) {
  LayerType type = CommonType(kSequences);
  type.summary =
      "Sequences of several lengths: rows of HDF5 datasets, as HDF5Data, in batches of similar "
      "length "
      "that are cut to their longest. With shuffle, sequences whose lengths differ by up to an "
      "eighth "
      "of a doubling are mixed, and the batches are shuffled; without, and in TEST, the shortest "
      "come first. docs/pipeline.md has a net.";
  type.origin = "Crema";
  type.formula = "output[n] = the first T steps of a row, T = the largest length in the batch";
  type.output_docs = {"batch_size x T x ..., from a dataset of rows of steps x ...",
                      "others: cut to T if their rows have as many steps as those of the first top",
                      "lengths, the last top: batch_size, steps of each row that count, 1 or more"};
  type.outputs = {.min = 2, .max = Arity::kAny};
  type.example =
      "top: \"data\"\n"
      "top: \"cont\"\n"
      "top: \"label\"\n"
      "top: \"length\"\n"
      "hdf5_data_param { source: \"train_h5_files.txt\" batch_size: 64 shuffle: true }";
  type.bad_samples = {
      {"hdf5_data_param { batch_size: 4 }", {}, "source", 2},
      {"hdf5_data_param { source: 'no/such/list' batch_size: 4 }", {}, "no/such/list", 2},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
