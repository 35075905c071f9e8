// HDF5Data: rows of datasets of HDF5 files, as they are. The names of the tops are those of the
// datasets; output i is (batch, axes of a row of dataset i). Batches span files and wrap to the
// first. With `shuffle`, files and rows come in another order each epoch. No input, no gradient.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/hdf5_rows.h"
#include "graph/registry.h"

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

// Reads when asked: a file at a time lies in memory, so there is little to prefetch.
class HDF5DataState final : public LayerSessionState {
 public:
  HDF5DataState(const LayerParameter& param, uint64_t seed) : param_(param), seed_(seed) {}

  void Next(uint64_t layer_id, std::span<const TensorView> outputs) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    ReadBatch(layer_id, outputs);
    waited_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void Save(LayerState* state) const override {
    state->set_position(position_);
    if (reader_) state->set_epoch(position_ / reader_->set().rows());
  }

  void Restore(const LayerState& state) override { position_ = state.position(); }

  int64_t EpochSize() const override {
    return static_cast<int64_t>(reader_ ? reader_->set().rows() : OpenSet(param_).rows());
  }

  std::string SampleName(int64_t index) const override {
    if (index < 0 || static_cast<size_t>(index) >= batch_rows_.size()) return {};
    const Hdf5RowReader::Place& place = batch_rows_[static_cast<size_t>(index)];
    return StrCat(reader_->set().files()[place.file].path, " row ", place.row);
  }

  // Reading is all that Forward does here.
  double WaitedSeconds() const override { return waited_seconds_; }

 private:
  void ReadBatch(uint64_t layer_id, std::span<const TensorView> outputs) {
    if (!reader_) {
      reader_ = std::make_unique<Hdf5RowReader>(
          OpenSet(param_), Hdf5RowReader::Options{.dtype = outputs[0].dtype(),
                                                  .shuffle = param_.hdf5_data_param().shuffle(),
                                                  .seed = seed_,
                                                  .layer_id = layer_id});
      places_.resize(outputs.size());
    }
    CheckShapes(outputs);
    const int64_t batch = outputs[0].shape()[0];
    batch_rows_.resize(static_cast<size_t>(batch));
    for (int64_t row = 0; row < batch; ++row) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        const size_t bytes = outputs[i].bytes() / static_cast<size_t>(batch);
        places_[i] = static_cast<std::byte*>(outputs[i].raw()) + bytes * static_cast<size_t>(row);
      }
      batch_rows_[static_cast<size_t>(row)] =
          reader_->Read(position_ + static_cast<uint64_t>(row), places_);
    }
    position_ += static_cast<uint64_t>(batch);
  }

  // The files may have changed between planning and the first batch.
  void CheckShapes(std::span<const TensorView> outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Shape row = Shape(outputs[i].shape().dims().subspan(1));
      if (row == reader_->set().row_shapes()[i]) continue;
      Fail(ErrorCode::kDataLoss,
           StrCat("a row of the dataset '", reader_->set().datasets()[i], "' was ", ToString(row),
                  " when the net was built, and is ", ToString(reader_->set().row_shapes()[i]),
                  " now"),
           {.layer = param_.name()});
    }
  }

  const LayerParameter param_;
  const uint64_t seed_;
  uint64_t position_ = 0;  // rows
  std::unique_ptr<Hdf5RowReader> reader_;
  std::vector<std::byte*> places_;
  std::vector<Hdf5RowReader::Place> batch_rows_;  // of the last batch
  double waited_seconds_ = 0;
};

class HDF5Data final : public Layer {
 public:
  explicit HDF5Data(const LayerParameter& param) : Layer(param) {
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
    if (data.batch_size() == 0) {
      FailField(*this, "hdf5_data_param.batch_size",
                "hdf5_data_param.batch_size must be 1 or more");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Hdf5Set set = OpenSet(param());
    LayerInfo info;
    for (const Shape& row : set.row_shapes()) {
      std::vector<int64_t> dims{param().hdf5_data_param().batch_size()};
      dims.insert(dims.end(), row.dims().begin(), row.dims().end());
      info.outputs.push_back({Shape(dims), context.dtype});
    }
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<HDF5DataState*>(args.state)->Next(args.layer_id, args.outputs);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context, Phase) const override {
    return std::make_unique<HDF5DataState>(param(), context.seed());
  }
};

}  // namespace

void RegisterHDF5Data(Registry& registry) {
  LayerType type;
  type.name = "HDF5Data";
  type.category = "input";
  type.summary =
      "Rows of HDF5 datasets, one for each top and of its name. `source` lists the files; its "
      "path, "
      "and those in it, are relative to the current folder.";
  type.formula = "output[n] = row of the dataset, numbers converted to the type of the net";
  type.output_docs = {"one for each dataset: batch_size x the extents of a row"};
  type.differences = {
      "Files may hold different numbers of rows; a dataset that is missing or of another shape is "
      "an error that names file and dataset."};
  type.param_fields = {"hdf5_data_param"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = Arity::kAny};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "hdf5_data_param { source: \"train_h5_files.txt\" batch_size: 64 shuffle: true }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const HDF5Data>(p); };
  type.bad_samples = {
      {.prototxt = "hdf5_data_param { batch_size: 4 }", .input_shapes = {}, .expect = "source"},
      {.prototxt = "hdf5_data_param { source: 'no/such/list' }",
       .input_shapes = {},
       .expect = "batch_size"},
      {.prototxt = "hdf5_data_param { source: 'no/such/list' batch_size: 4 }",
       .input_shapes = {},
       .expect = "no/such/list"},
      {.prototxt = "hdf5_data_param { source: 'no/such/list' batch_size: 4 } "
                   "transform_param { scale: 2 }",
       .input_shapes = {},
       .expect = "transform_param"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
