// HDF5Output: appends its two inputs to the datasets `data` and `label` of an HDF5 file in each
// forward pass. Blobs of up to four axes are written with four, as in Caffe. No output, no
// gradient.
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/hdf5/hdf5_appender.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int kAxes = 4;

// Appends axes of size 1.
ConstTensorView WithFourAxes(const ConstTensorView& view) {
  if (view.shape().axes() >= kAxes) return view;
  std::array<int64_t, kAxes> dims{1, 1, 1, 1};
  for (int i = 0; i < view.shape().axes(); ++i) dims[static_cast<size_t>(i)] = view.shape()[i];
  return {view.raw(), Shape(dims), view.dtype(), view.device()};
}

// The file is created with the first batch, so that a net that is only inspected destroys nothing.
class HDF5OutputState final : public LayerSessionState {
 public:
  explicit HDF5OutputState(std::string path) : path_(std::move(path)) {}

  void Write(std::span<const ConstTensorView> inputs) {
    if (!file_) file_ = std::make_unique<Hdf5Appender>(path_);
    file_->Append("data", WithFourAxes(inputs[0]));
    file_->Append("label", WithFourAxes(inputs[1]));
    file_->Flush();
  }

 private:
  const std::string path_;
  std::unique_ptr<Hdf5Appender> file_;
};

class HDF5Output final : public Layer {
 public:
  explicit HDF5Output(const LayerParameter& param) : Layer(param) {
    if (param.hdf5_output_param().file_name().empty()) {
      FailField(*this, "hdf5_output_param.file_name",
                "hdf5_output_param.file_name is missing: give the file to write");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& data = context.inputs[0].shape;
    const Shape& labels = context.inputs[1].shape;
    const int64_t rows = data.axes() == 0 ? 1 : data[0];
    if (rows != (labels.axes() == 0 ? 1 : labels[0])) {
      FailInputs(*this, StrCat("the inputs must have as many samples as each other, but are ",
                               ToString(data), " and ", ToString(labels)));
    }
    LayerInfo info;
    info.gradient_forbidden = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<HDF5OutputState*>(args.state)->Write(args.inputs);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const override {
    return std::make_unique<HDF5OutputState>(param().hdf5_output_param().file_name());
  }
};

}  // namespace

void RegisterHDF5Output(Registry& registry) {
  LayerType type;
  type.name = "HDF5Output";
  type.category = "input";
  type.summary =
      "Writes two blobs into an HDF5 file, as the datasets `data` and `label`, which HDF5Data "
      "reads. Needs a build with HDF5.";
  type.formula = "data = data, input 0 below it; label = label, input 1 below it";
  type.input_docs = {"data: any shape; axis 0 is the samples", "label: as many samples"};
  type.differences = {
      "Each forward pass appends its rows; Caffe fails in the second pass, because the datasets "
      "exist.",
      "The first forward pass creates the file; Caffe creates it when the net is built. A resumed "
      "run overwrites it.",
      "Blobs of more than four axes are written as they are; Caffe refuses them."};
  type.param_fields = {"hdf5_output_param"};
  type.inputs = {.min = 2, .max = 2};
  type.outputs = {.min = 0, .max = 0};
  type.example =
      "bottom: \"features\"\n"
      "bottom: \"label\"\n"
      "hdf5_output_param { file_name: \"features.h5\" }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const HDF5Output>(p); };
  type.bad_samples = {
      {"", {{2, 3}, {2}}, "file_name is missing", 0},
      {"hdf5_output_param { file_name: 'out.h5' }", {{2, 3}, {3}}, "2x3 and 3", 0},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
