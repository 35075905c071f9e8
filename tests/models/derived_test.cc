// Every net of models/: the deploy net made from its training net computes what the deploy net
// written by hand does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <string>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "inference/deploy_net.h"
#include "inference/derive_deploy_net.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/net.h"

namespace crema::test {
namespace {

struct DerivedModel {
  std::string folder;
  // Of inputs, where the text does not say; for both nets.
  std::map<std::string, Shape> shapes = {};
  std::string stage = {};
  // The net written by hand ends before the Softmax.
  bool raw = false;

  friend std::ostream& operator<<(std::ostream& out, const DerivedModel& model) {
    return out << model.folder;
  }
};

const std::vector<DerivedModel>& DerivedModels() {
  static const std::vector<DerivedModel> models = {
      {.folder = "alexnet"},
      {.folder = "autoencoder", .shapes = {{"data", {1, 1, 28, 28}}}, .stage = "test-on-test"},
      {.folder = "caffenet"},
      {.folder = "char_rnn", .shapes = {{"data", {1, 1, 65}}, {"cont", {1, 1}}}},
      {.folder = "cifar10_full", .shapes = {{"data", {1, 3, 32, 32}}}},
      {.folder = "cifar10_quick", .shapes = {{"data", {1, 3, 32, 32}}}},
      {.folder = "fcn8s", .shapes = {{"data", {1, 3, 64, 64}}}, .raw = true},
      {.folder = "googlenet"},
      {.folder = "lenet", .shapes = {{"data", {1, 1, 28, 28}}}},
      {.folder = "lenet_digits", .shapes = {{"data", {1, 1, 28, 28}}}},
      {.folder = "lrcn", .shapes = {{"data", {16, 3, 227, 227}}, {"cont", {16, 1}}}},
      {.folder = "mobilenet_v1"},
      {.folder = "mobilenet_v2"},
      {.folder = "resnet18"},
      {.folder = "resnet50"},
      {.folder = "resnet101"},
      {.folder = "resnet152"},
      {.folder = "siamese", .shapes = {{"data", {1, 1, 28, 28}}}},
      {.folder = "squeezenet"},
      {.folder = "squeezenet_v1.1"},
      {.folder = "ssd160"},
      {.folder = "ssd300"},
      {.folder = "unet128", .shapes = {{"data", {1, 3, 64, 64}}}},
      {.folder = "vgg16"},
  };
  return models;
}

NetFile Read(const DerivedModel& model, const std::string& name) {
  return ReadNet(std::string(CREMA_SOURCE_DIR) + "/models/" + model.folder + "/" + name);
}

NetState StateOf(const DerivedModel& model, const NetFile& net) {
  NetState state = InferenceState(net.net);
  if (!model.stage.empty()) state.add_stage(model.stage);
  return state;
}

// Sets the shapes of the inputs, so that both nets have the same.
void SetShapes(const DerivedModel& model, NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "Input") continue;
    const auto given = model.shapes.find(layer.top(0));
    if (given == model.shapes.end()) continue;
    BlobShape* shape = layer.mutable_input_param()->mutable_shape(0);
    shape->clear_dim();
    for (int axis = 0; axis < given->second.axes(); ++axis) shape->add_dim(given->second[axis]);
  }
}

// Ends the net with the Softmax of the derived one.
void AppendSoftmax(const NetFile& derived, NetFile* net) {
  const LayerParameter& last = derived.net.layer(derived.net.layer_size() - 1);
  ASSERT_EQ(last.type(), "Softmax");
  *net->net.add_layer() = last;
}

std::shared_ptr<const Plan> PlanOf(const NetFile& net) {
  std::vector<Problem> warnings;
  return MakePlan(net.net, net.source, InferenceState(net.net), TestRegistry(), {.threads = 2},
                  &warnings);
}

// Draws weights that keep the magnitude of blobs; fillers take longer, and some draw numbers that
// hide differences. Statistics are 1, by which can be divided.
void Draw(const Plan& plan, Weights* weights) {
  uint32_t random = 1;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const std::span<float> values = weights->blob(s).span<float>();
    const int64_t inputs = slot.shape.count() / std::max<int64_t>(slot.shape[0], 1);
    const float scale = slot.statistic ? 0 : std::sqrt(3.0F / static_cast<float>(inputs));
    for (float& value : values) {
      random = random * 1664525U + 1013904223U;
      const float drawn = static_cast<float>(random >> 8) / static_cast<float>(1 << 23) - 1;
      value = slot.statistic ? 1 : drawn * scale;
    }
  }
}

std::vector<std::vector<float>> OutputsOf(const std::shared_ptr<const Plan>& plan,
                                          const std::shared_ptr<Weights>& weights) {
  Session session(plan, weights, ExecContext(2, 1));
  for (const PlannedLayer& layer : plan->layers) {
    if (layer.type->name != "Input") continue;
    for (const int v : layer.outputs) {
      FillInput(&session, plan->values[static_cast<size_t>(v)].name, 5);
    }
  }
  session.Forward();
  std::vector<std::vector<float>> outputs;
  for (const int v : plan->outputs) outputs.push_back(ValuesOf(session.DataOf(v)));
  return outputs;
}

class Derived : public testing::TestWithParam<DerivedModel> {};

TEST_P(Derived, ComputesWhatTheDeployNetWrittenByHandDoes) {
  const DerivedModel& model = GetParam();
  const NetFile training = Read(model, "train_val.prototxt");
  const DerivedNet derived =
      DeriveDeployNet(training, StateOf(model, training), model.shapes, TestRegistry());
  NetFile by_hand = Read(model, "deploy.prototxt");
  SetShapes(model, &by_hand.net);
  if (model.raw) AppendSoftmax(derived.net, &by_hand);

  const auto plan = PlanOf(derived.net);
  const auto expected_plan = PlanOf(by_hand);
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
  Draw(*plan, weights.get());
  const auto expected = OutputsOf(expected_plan, Weights::ShareWith(*expected_plan, *weights, 2));
  const auto outputs = OutputsOf(plan, weights);
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i], expected[i]);
    const auto [least, most] = std::ranges::minmax(outputs[i]);
    EXPECT_LT(least, most);
  }
  for (size_t s = 0; s < expected_plan->parameters.size(); ++s) {
    const ParameterSlot& slot = expected_plan->parameters[s];
    const std::string& name = expected_plan->layers[static_cast<size_t>(slot.layer)].name();
    EXPECT_TRUE(std::ranges::any_of(plan->layers, [&](const PlannedLayer& layer) {
      return layer.name() == name;
    })) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Derived, testing::ValuesIn(DerivedModels()),
                         [](const auto& param) {
                           std::string name = param.param.folder;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace crema::test
