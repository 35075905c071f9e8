// Writes models, inputs and outputs for tests/onnx/export_check.py, which runs them in ONNX
// Runtime. Skipped unless CREMA_ONNX_CASES names the folder to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/tensor_files.h"
#include "inference/model_parts.h"
#include "inference/recording.h"
#include "onnx/export.h"
#include "support/exported_net.h"
#include "support/net.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

fs::path Root() {
  const char* given = std::getenv("CREMA_ONNX_CASES");
  return given == nullptr ? fs::path() : fs::path(given);
}

void WriteNpz(const fs::path& path, const std::vector<BlobInfo>& blobs,
              const std::vector<Tensor>& values) {
  std::vector<NamedArrayView> arrays;
  for (size_t i = 0; i < blobs.size(); ++i) arrays.push_back({blobs[i].name, values[i].view()});
  WriteArrays(path.string(), arrays);
}

std::vector<Tensor> OutputsFor(const std::shared_ptr<const Model>& model,
                               const std::vector<Tensor>& inputs) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    named.push_back({model->inputs()[i].name, inputs[i].view()});
  }
  ModelRunner runner(model);
  runner.Run(named);
  std::vector<Tensor> outputs;
  for (const BlobInfo& output : model->outputs()) {
    const ConstTensorView value = runner.Output(output.name);
    Tensor& copy = outputs.emplace_back(value.shape(), value.dtype());
    std::copy_n(static_cast<const char*>(value.raw()), value.bytes(),
                static_cast<char*>(copy.view().raw()));
  }
  return outputs;
}

// Writes m.onnx, in.npz and out.npz, or refused.txt.
void WriteCase(const std::string& name, const std::shared_ptr<const Model>& model,
               const std::vector<Tensor>& inputs) {
  const fs::path folder = Root() / name;
  fs::create_directories(folder);
  OnnxExportOptions options;
  if (const char* opset = std::getenv("CREMA_ONNX_OPSET")) options.opset = std::atoi(opset);
  try {
    const OnnxExport exported = ToOnnx(*model, options);
    WriteOnnx(exported, (folder / "m.onnx").string(), false, [](const std::string&) {});
    std::vector<BlobInfo> outputs;
    for (const BlobInfo& output : model->outputs()) {
      outputs.push_back(output);
      for (const ExportedBlob& blob : exported.outputs) {
        if (blob.blob == output.name) outputs.back().name = blob.value;
      }
    }
    WriteNpz(folder / "in.npz", model->inputs(), inputs);
    WriteNpz(folder / "out.npz", outputs, OutputsFor(model, inputs));
  } catch (const Error& error) {
    WriteFileAtomically((folder / "refused.txt").string(), error.what());
  }
}

// Draws matrices and filters, which deploy nets fill with 0, so that every layer counts: few enough
// to leave numbers in range. Sets variances and factors of running statistics to 1.
std::shared_ptr<const Model> WithWeights(const std::shared_ptr<const Model>& model) {
  const Plan& plan = *model->parts().plan;
  const std::shared_ptr<Weights> weights = Weights::Make(plan, 1);
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const std::span<float> values = weights->blob(s).span<float>();
    if (slot.statistic && !slot.role.starts_with("mean")) std::ranges::fill(values, 1.0F);
    if (slot.shape.axes() < 2 || slot.owner != static_cast<int>(s)) continue;
    const RandomStream stream(1, s);
    const double spread = 1 / std::sqrt(static_cast<double>(slot.shape.count(1)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(spread * stream.Gaussian(i));
    }
  }
  return Model::MakeSharing(model->parts().net, *weights, {}, {}, test::TestRegistry(), NullSink());
}

TEST(ExportCases, Samples) {
  if (Root().empty()) GTEST_SKIP();
  for (const test::SampleNet& sample : test::SampleNets()) {
    const auto model = test::ModelOfSample(sample);
    if (model == nullptr) continue;
    fs::create_directories(Root() / ("sample-" + sample.name));
    std::ofstream(Root() / ("sample-" + sample.name) / "net.prototxt") << sample.text;
    WriteCase("sample-" + sample.name, model, test::InputsOf(*model, sample.sample, 7));
  }
}

TEST(ExportCases, Models) {
  if (Root().empty()) GTEST_SKIP();
  for (const auto& entry : fs::directory_iterator(fs::path(CREMA_SOURCE_DIR) / "models")) {
    const fs::path net = entry.path() / "deploy.prototxt";
    if (!fs::exists(net)) continue;
    const auto model = WithWeights(
        Model::Make(ReadNet(net.string()), {}, {}, {}, test::TestRegistry(), NullSink()));
    const RecordedRun run = RecordRun(model);
    WriteCase("model-" + entry.path().filename().string(), model, run.inputs);
  }
}

// Returns the net without the weighted sums that the recordings of gradients need.
NetFile WithoutProbes(NetFile net) {
  NetParameter kept = net.net;
  kept.clear_layer();
  for (const LayerParameter& layer : net.net.layer()) {
    const std::string& name = layer.name();
    const bool probe = name.starts_with("probe_") || name.starts_with("sum_");
    const bool factor = layer.type() == "Input" && name.ends_with("_r");
    if (!probe && !factor) *kept.add_layer() = layer;
  }
  net.net = std::move(kept);
  return net;
}

// The recorded cases of Caffe, with their weights and inputs.
TEST(ExportCases, Recordings) {
  if (Root().empty()) GTEST_SKIP();
  const fs::path ops = fs::path(CREMA_SOURCE_DIR) / "tests" / "conformance" / "cases" / "ops";
  for (const auto& entry : fs::directory_iterator(ops)) {
    const std::string name = "recorded-" + entry.path().filename().string();
    WeightsFiles weights;
    weights.missing = MissingLayers::kKeep;
    const fs::path file = entry.path() / "weights.caffemodel";
    if (fs::exists(file)) weights.paths = {file.string()};
    try {
      const NetFile net = ReadNet((entry.path() / "net.prototxt").string());
      const auto model =
          Model::Make(WithoutProbes(net), weights, {}, {}, test::TestRegistry(), NullSink());
      const NetParameter golden = ReadNetBinary((entry.path() / "golden.binaryproto").string());
      std::vector<Tensor> inputs;
      for (const BlobInfo& input : model->inputs()) {
        for (const LayerParameter& layer : golden.layer()) {
          if (layer.name() != "blob:" + input.name) continue;
          Tensor& tensor = inputs.emplace_back(ShapeOf(layer.blobs(0)), DType::kF32);
          CopyTo(layer.blobs(0), tensor.view());
        }
      }
      WriteCase(name, model, inputs);
    } catch (const Error& error) {
      fs::create_directories(Root() / name);
      WriteFileAtomically((Root() / name / "refused.txt").string(), error.what());
    }
  }
}

}  // namespace
}  // namespace crema
