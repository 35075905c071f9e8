// Every net of models/: it builds, its parameters are as many as published, it runs both ways.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "plan/memory/liveness.h"
#include "plan/memory/memory_planner.h"
#include "plan/summary.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/net.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

struct ZooModel {
  std::string folder;
  int64_t parameters;                        // as published, of the net for use
  std::map<std::string, Shape> shapes = {};  // of the data, where the text does not say
  int64_t trained = 0;                       // of the training net, if it has more

  friend std::ostream& operator<<(std::ostream& out, const ZooModel& model) {
    return out << model.folder;
  }
};

// Numbers and their sources: README.md of each folder.
const std::vector<ZooModel>& ZooModels() {
  static const std::vector<ZooModel> models = {
      {.folder = "alexnet", .parameters = 60'965'224},
      {.folder = "autoencoder", .parameters = 2'837'314, .shapes = {{"data", {2, 1, 28, 28}}}},
      {.folder = "caffenet", .parameters = 60'965'224},
      {.folder = "char_rnn",
       .parameters = 240'321 - 2 * 512,
       .shapes = {{"data", {5, 3, 65}}, {"cont", {5, 3}}, {"label", {5, 3}}}},
      {.folder = "cifar10_full",
       .parameters = 89'578,
       .shapes = {{"data", {2, 3, 32, 32}}, {"label", {2}}}},
      {.folder = "cifar10_quick",
       .parameters = 145'578,
       .shapes = {{"data", {2, 3, 32, 32}}, {"label", {2}}}},
      {.folder = "fcn8s",
       .parameters = 134'489'759,
       .shapes = {{"data", {1, 3, 32, 32}}, {"label", {1, 1, 32, 32}}}},
      {.folder = "googlenet", .parameters = 6'998'552, .trained = 13'378'280},
      {.folder = "lenet",
       .parameters = 431'080,
       .shapes = {{"data", {2, 1, 28, 28}}, {"label", {2}}}},
      // Not published; the sum over conv1..conv5, fc6, lstm1 and fc8-final.
      {.folder = "lrcn",
       .parameters =
           14'208 + 461'184 + 1'769'984 + 1'180'160 + 885'120 + 56'627'200 + 4'457'472 + 25'957,
       .shapes = {{"data", {16, 3, 227, 227}}, {"cont", {16}}, {"label", {16}}}},
      {.folder = "mobilenet_v1", .parameters = 4'231'976},
      {.folder = "mobilenet_v2", .parameters = 3'504'872},
      {.folder = "resnet18", .parameters = 11'689'512},
      {.folder = "resnet50", .parameters = 25'557'032},
      {.folder = "resnet101", .parameters = 44'549'160},
      {.folder = "resnet152", .parameters = 60'192'808},
      {.folder = "siamese",
       .parameters = 431'102,
       .shapes = {{"pair_data", {2, 2, 28, 28}}, {"sim", {2}}}},
      {.folder = "squeezenet", .parameters = 1'248'424},
      {.folder = "squeezenet_v1.1", .parameters = 1'235'496},
      // Crema's own; the sum over its layers.
      {.folder = "ssd160", .parameters = 1'096'708, .shapes = {{"label", {1, 1, 2, 8}}}},
      {.folder = "ssd300", .parameters = 26'285'486, .shapes = {{"label", {1, 1, 2, 8}}}},
      // Crema's own; the sum over its layers.
      {.folder = "unet128",
       .parameters = 839'941,
       .shapes = {{"data", {2, 3, 32, 32}}, {"label", {2, 1, 32, 32}}}},
      {.folder = "vgg16", .parameters = 138'357'544},
  };
  return models;
}

std::string FileOf(const ZooModel& model, const std::string& name) {
  return std::string(CREMA_SOURCE_DIR) + "/models/" + model.folder + "/" + name;
}

std::shared_ptr<const Plan> PlanOf(const ZooModel& model, const std::string& name, Phase phase) {
  NetFile file = ReadNet(FileOf(model, name));
  ReplaceSources(
      {.given = name == "deploy.prototxt" ? std::map<std::string, Shape>() : model.shapes,
       .batch = model.shapes.empty() || model.folder.starts_with("ssd") ? 1 : 0},
      TestRegistry(), &file.net);
  NetState state;
  state.set_phase(phase);
  if (phase == TEST) state.add_stage("test-on-test");
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, state, TestRegistry(),
                  {.threads = 2, .backward = phase == TRAIN}, &warnings);
}

class Zoo : public testing::TestWithParam<ZooModel> {};

TEST_P(Zoo, HasItsFiles) {
  for (const char* name :
       {"train_val.prototxt", "solver.prototxt", "deploy.prototxt", "README.md"}) {
    EXPECT_TRUE(fs::exists(FileOf(GetParam(), name))) << name;
  }
  const SolverFile solver = ReadSolver(FileOf(GetParam(), "solver.prototxt"));
  EXPECT_EQ(solver.solver.net(), "models/" + GetParam().folder + "/train_val.prototxt");
}

TEST_P(Zoo, HasThePublishedNumberOfParameters) {
  const auto deploy = PlanOf(GetParam(), "deploy.prototxt", TEST);
  EXPECT_EQ(Summarize(*deploy).total.parameters, GetParam().parameters);
  const auto training = PlanOf(GetParam(), "train_val.prototxt", TRAIN);
  const int64_t trained = GetParam().trained > 0 ? GetParam().trained : GetParam().parameters;
  EXPECT_EQ(Summarize(*training).total.parameters, trained);
}

TEST_P(Zoo, TestPhasePlans) {
  EXPECT_FALSE(PlanOf(GetParam(), "train_val.prototxt", TEST)->outputs.empty());
}

// A box of class 3 for SSD, 1 where a sequence continues, class 1 everywhere else.
void SetLabels(const ZooModel& model, Session* session) {
  for (const PlannedLayer& layer : session->plan().layers) {
    if (!layer.inputs.empty()) continue;
    for (const int v : layer.outputs) {
      const std::string& name = session->plan().values[static_cast<size_t>(v)].name;
      const TensorView blob = session->MutableData(name);
      if (name == "label" && model.folder.starts_with("ssd")) {
        const float row[] = {0, 3, 0, 0.2F, 0.2F, 0.7F, 0.6F, 0};
        for (int64_t i = 0; i < blob.count(); ++i) blob.data<float>()[i] = row[i % 8];
      } else if (name == "label" || name == "cont" || name == "sim") {
        std::ranges::fill(blob.span<float>(), 1.0F);
      } else {
        FillInput(session, name, 5);
      }
    }
  }
}

TEST_P(Zoo, RunsForwardAndBackward) {
  const auto plan = PlanOf(GetParam(), "train_val.prototxt", TRAIN);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(2, 1));
  SetLabels(GetParam(), &session);
  const double loss = session.Forward();
  EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_GT(loss, 0);
  session.Backward();
  size_t wanted = 0;
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const ParameterSlot& slot = plan->parameters[s];
    if (!slot.wants_gradient || slot.owner != static_cast<int>(s)) continue;
    ++wanted;
    double sum = 0;
    for (const float g : session.ParameterGradient(s).span<float>()) sum += std::abs(g);
    EXPECT_TRUE(std::isfinite(sum)) << plan->layers[static_cast<size_t>(slot.layer)].name();
  }
  EXPECT_GT(wanted, 0U);
}

// Stored statistics of a net that was never trained are zeros, by which nothing can be divided.
void SetStatistics(const Plan& plan, Weights* weights) {
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    if (plan.parameters[s].statistic) std::ranges::fill(weights->blob(s).span<float>(), 1.0F);
  }
}

TEST_P(Zoo, DeployNetRuns) {
  const auto plan = PlanOf(GetParam(), "deploy.prototxt", TEST);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  SetStatistics(*plan, weights.get());
  Session session(plan, weights, ExecContext(2, 1));
  SetLabels(GetParam(), &session);
  session.Forward();
  for (const int v : plan->outputs) {
    for (const float value : session.DataOf(v).span<float>()) ASSERT_TRUE(std::isfinite(value));
  }
}

// The largest live set is a lower bound of every placement.
TEST_P(Zoo, ActivationsTakeLittleMoreThanTheLargestLiveSet) {
  const auto expect = [](Plan plan) {
    const int64_t bound = LargestLiveSet(FindLifetimes(&plan));
    EXPECT_GE(plan.arena_bytes, bound);
    EXPECT_LE(plan.arena_bytes, bound * 101 / 100);
  };
  expect(*PlanOf(GetParam(), "deploy.prototxt", TEST));
  expect(*PlanOf(GetParam(), "train_val.prototxt", TEST));
  expect(*PlanOf(GetParam(), "train_val.prototxt", TRAIN));
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(ZooModels()), [](const auto& param) {
  std::string name = param.param.folder;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace crema::test
