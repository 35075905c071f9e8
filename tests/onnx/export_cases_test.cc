// Writes models, inputs and outputs for tests/onnx/export_check.py, which runs them in ONNX
// Runtime. Skipped unless CREMA_ONNX_CASES names the folder to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/tensor_files.h"
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
    WriteNpz(folder / "out.npz", outputs, test::OutputsFor(model, inputs));
  } catch (const Error& error) {
    WriteFileAtomically((folder / "refused.txt").string(), error.what());
  }
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
    const auto model = test::ModelWithWeights(ReadNet(net.string()));
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
    weights.may_load_nothing = true;  // a case about phases has weights of other layers
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
