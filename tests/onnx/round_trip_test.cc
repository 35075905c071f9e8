// prototxt to ONNX to prototxt: the same outputs. tests/onnx/export_check.py does it for all nets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "graph/detections.h"
#include "inference/recording.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "support/exported_net.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;

// Expects differences of at most 1e-6 of the largest value.
void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (size_t o = 0; o < want.size(); ++o) {
    ASSERT_EQ(got[o].shape(), want[o].shape());
    const std::span<const float> a = want[o].view().span<float>(), b = got[o].view().span<float>();
    float most = 1e-5F;
    for (const float value : a) {
      if (std::isfinite(value)) most = std::max(most, std::abs(value));
    }
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ASSERT_LE(std::abs(a[i] - b[i]), 1e-6F * most) << "output " << o << " at " << i;
    }
  }
}

// Exports the model, imports the file, and writes and reads the net as text and weights.
void ExpectRoundTrip(const std::shared_ptr<const Model>& model, const std::vector<Tensor>& inputs) {
  const TempDir folder;
  const OnnxExport exported = ToOnnx(*model, {});
  WriteOnnx(exported, folder.File("m.onnx"), false, [](const std::string&) {});
  ImportOptions options;
  for (size_t i = 0; i < inputs.size(); ++i) {
    options.shapes[model->inputs()[i].name] = inputs[i].shape();
  }
  NetParameter net = ImportOnnx(folder.File("m.onnx"), options).net;
  WeightsFiles weights;
  if (std::ranges::any_of(net.layer(), [](const auto& layer) { return layer.blobs_size() > 0; })) {
    weights.paths = {folder.File("w.caffemodel")};
    WriteCaffemodel(net, weights.paths[0]);
  }
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_blobs();
  const auto returned = Model::Make(ParseNet(PrintText(net), "deploy.prototxt"), weights, {}, {},
                                    test::TestRegistry(), NullSink());
  std::vector<std::string> own, other;
  for (const ExportedBlob& output : exported.outputs) {
    own.push_back(output.blob);
    other.push_back(output.value);
  }
  ExpectSame(test::OutputsFor(returned, inputs, other), test::OutputsFor(model, inputs, own));
}

class RoundTrip : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTrip, KeepsTheOutputsOfANet) {
  const auto model = test::ModelWithWeights(
      ReadNet(StrCat(CREMA_SOURCE_DIR, "/models/", GetParam(), "/deploy.prototxt")));
  ExpectRoundTrip(model, RecordRun(model).inputs);
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         ::testing::Values("char_rnn", "cifar10_full", "lenet", "siamese",
                                           "squeezenet_v1.1"),
                         [](const auto& net) {
                           std::string name = net.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// The number of their rows is told by a run only.
TEST(RoundTripTest, KeepsChosenBoxesAndItems) {
  int tried = 0;
  for (const test::SampleNet& sample : test::SampleNets()) {
    const std::string type = sample.name.substr(0, sample.name.find('-'));
    if (!MakesDetections(type) && type != "Proposal" && type != "Filter") continue;
    if (sample.text.find("eta") != std::string::npos) continue;  // ONNX has no form for it
    SCOPED_TRACE(sample.name);
    const auto model = test::ModelOfSample(sample);
    if (model == nullptr) continue;
    ExpectRoundTrip(model, test::InputsOf(*model, sample.sample, 7));
    ++tried;
  }
  EXPECT_GE(tried, 21);
}

}  // namespace
}  // namespace crema
