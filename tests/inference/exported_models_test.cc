// Exports every net of models/, and further nets if available: the exported file computes the same
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "inference/crema_export.h"
#include "support/serving_nets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(CREMA_SOURCE_DIR) / "models";
const fs::path kSlim320 = fs::path(CREMA_SOURCE_DIR) / "tests" / "models" / "slim-320";
const fs::path kShared = fs::path(CREMA_SOURCE_DIR).parent_path() / "shared" / "models";

// The text has pictures of 500 x 500, for which VGG takes seconds.
void Shrink(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "Input") continue;
    BlobShape* shape = layer.mutable_input_param()->mutable_shape(0);
    if (shape->dim_size() == 4 && shape->dim(2) == 500) {
      shape->set_dim(2, 32);
      shape->set_dim(3, 32);
    }
  }
}

// Random weights, and statistics of 1: an untrained net's statistics would cause a division by
// zero.
WeightsFiles DrawnWeights(const NetFile& net, const std::string& path) {
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  const auto plan =
      MakePlan(net.net, net.source, state, test::TestRegistry(), {.backward = false}, &warnings);
  const bool has_statistics = std::ranges::any_of(plan->parameters, &ParameterSlot::statistic);
  if (!has_statistics) return {};  // the model's own fillers
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    if (plan->parameters[s].statistic) std::ranges::fill(weights->blob(s).span<float>(), 1.0F);
  }
  WriteCaffemodel(weights->Export(*plan), path);
  return {.paths = {path}};
}

std::shared_ptr<const Model> Load(const NetFile& net, const WeightsFiles& weights) {
  return Model::Make(net, weights, {}, {.threads = 2}, test::TestRegistry(), NullSink());
}

// The shapes in the text, and with other batch sizes if supported.
std::vector<std::vector<Shape>> ShapesToTry(const Model& model, const NetFile& net) {
  std::vector<std::vector<Shape>> result(1);
  for (const LayerParameter& layer : net.net.layer()) {
    for (int t = 0; layer.type() == "Input" && t < layer.top_size(); ++t) {
      const auto& shapes = layer.input_param().shape();
      const auto& dim = shapes.Get(std::min(t, shapes.size() - 1)).dim();
      result[0].emplace_back(std::span<const int64_t>(dim.data(), size_t(dim.size())));
    }
  }
  if (!model.Batches()) return result;
  std::vector<Shape>& one = result[0];
  for (Shape& shape : one) shape = shape.With(0, 1);
  result.push_back(one);
  for (Shape& shape : result[1]) shape = shape.With(0, 3);
  return result;
}

void ExpectSameBytes(const Model& model, const Model& opened, ModelRunner* before,
                     ModelRunner* after, const std::vector<Shape>& shapes) {
  std::vector<Tensor> values;
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) values.push_back(test::Drawn(shapes[i], i + 1));
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back({model.inputs()[i].name, std::as_const(values[i]).view()});
  }
  before->Run(inputs);
  after->Run(inputs);
  ASSERT_EQ(model.outputs().size(), opened.outputs().size());
  for (size_t o = 0; o < model.outputs().size(); ++o) {
    const std::string& name = model.outputs()[o].name;
    EXPECT_EQ(opened.outputs()[o].name, name);
    EXPECT_EQ(opened.outputs()[o].shape, model.outputs()[o].shape);
    const ConstTensorView a = before->Output(name);
    const ConstTensorView b = after->Output(name);
    ASSERT_EQ(a.shape(), b.shape()) << name;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << name;
    for (const float value : a.span<float>()) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

void ExportAndCompare(NetFile net, WeightsFiles weights) {
  const test::TempDir folder;
  Shrink(&net.net);
  if (weights.paths.empty()) weights = DrawnWeights(net, folder.File("w.caffemodel"));
  const auto model = Load(net, weights);
  const std::string path = folder.File("m.crema");
  ExportModel(model, path);
  const auto opened = Model::Open(path, {.threads = 2}, test::TestRegistry(), NullSink());
  EXPECT_EQ(opened->Batches(), model->Batches());
  ModelRunner before(model);
  ModelRunner after(opened);
  for (const std::vector<Shape>& shapes : ShapesToTry(*model, net)) {
    ExpectSameBytes(*model, *opened, &before, &after, shapes);
  }
}

class Exported : public testing::TestWithParam<std::string> {};

TEST_P(Exported, ComputesTheSameBytes) {
  ExportAndCompare(ReadNet((kModels / GetParam() / "deploy.prototxt").string()), {});
}

std::vector<std::string> FoldersOfModels() {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kModels)) {
    if (fs::exists(entry.path() / "deploy.prototxt")) {
      folders.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(folders);
  return folders;
}

INSTANTIATE_TEST_SUITE_P(Models, Exported, testing::ValuesIn(FoldersOfModels()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(ExportedModels, Slim320ComputesTheSameBytes) {
  ExportAndCompare(ReadNet((kSlim320 / "slim-320.prototxt").string()),
                   {.paths = {(kSlim320 / "slim-320.caffemodel").string()}});
}

TEST(ExportedModels, Slim320WithItsDecoderComputesTheSameBytes) {
  NetFile net = ReadNet((kSlim320 / "slim-320.prototxt").string());
  const NetFile tail = ReadNet((kSlim320 / "tail.prototxt").string());
  for (const LayerParameter& layer : tail.net.layer()) *net.net.add_layer() = layer;
  ExportAndCompare(net, {.paths = {(kSlim320 / "slim-320.caffemodel").string()}});
}

TEST(ExportedModels, Mnist2016ComputesTheSameBytes) {
  const fs::path folder = kShared / "mnist-2016";
  if (!fs::exists(folder)) GTEST_SKIP() << "models/mnist-2016 is not there";
  ExportAndCompare(ReadNet((folder / "deploy.prototxt").string()),
                   {.paths = {(folder / "snapshot_iter_28140.caffemodel").string()}});
}

}  // namespace
}  // namespace crema
