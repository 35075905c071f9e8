// Layers removed by an export.
#include "inference/deploy_net.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

NetParameter DeployOf(const std::string& text) {
  NetState state;
  state.set_phase(TEST);
  return DeployNet(ParseNet(text, "net.prototxt"), state, test::TestRegistry());
}

std::vector<std::string> Names(const NetParameter& net) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : net.layer()) names.push_back(layer.name());
  return names;
}

using Strings = std::vector<std::string>;

TEST(DeployNet, LeavesOutWhatOnlyTrainingNeeds) {
  const NetParameter net = DeployOf(R"(
name: "net" precision: BF16
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "noise" type: "Dropout" bottom: "x" top: "n" include { phase: TRAIN } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" include { phase: TEST }
  inner_product_param { num_output: 2 } blobs { data: 1 } }
layer { name: "drop" type: "Dropout" bottom: "fc" top: "fc" }
layer { name: "y" type: "Softmax" bottom: "fc" top: "y" }
)");
  EXPECT_EQ(Names(net), (Strings{"x", "fc", "y"}));
  EXPECT_EQ(net.name(), "net");
  EXPECT_EQ(net.precision(), BF16);
  EXPECT_EQ(net.layer(1).include_size() + net.layer(1).blobs_size(), 0);
}

TEST(DeployNet, KeepsDropoutThatComputesSomething) {
  const NetParameter net = DeployOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "half" type: "Dropout" bottom: "x" top: "x" dropout_param { scale_train: false } }
layer { name: "copy" type: "Dropout" bottom: "x" top: "y" }
)");
  EXPECT_EQ(Names(net), (Strings{"x", "half", "copy"}));
}

TEST(DeployNet, DropsWhatNoOutputDependsOn) {
  const NetParameter net = DeployOf(R"(
layer { name: "x" type: "Input" top: "x" top: "unused" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "halves" type: "Slice" bottom: "x" top: "a" top: "b" }
layer { name: "dead" type: "Sigmoid" bottom: "b" top: "c" }
layer { name: "deader" type: "TanH" bottom: "c" top: "d" }
layer { name: "end" type: "Silence" bottom: "d" bottom: "unused" }
layer { name: "y" type: "ReLU" bottom: "a" top: "y" }
)");
  EXPECT_EQ(Names(net), (Strings{"x", "halves", "y", "silence"}));
  const auto& silenced = net.layer(3).bottom();
  EXPECT_EQ(Strings(silenced.begin(), silenced.end()), (Strings{"unused", "b"}));
  const auto plan = test::PlanText(PrintText(net), TEST, {.backward = false});
  ASSERT_EQ(plan->outputs.size(), 1U);
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->outputs[0])].name, "y");
}

TEST(ConfineFilesTo, TakesFilesOfTheFolderOnly) {
  const test::TempDir temp;
  namespace fs = std::filesystem;
  const std::string folder = fs::canonical(temp.path()).string() + "/m";
  fs::create_directory(folder);
  temp.Write("secret", "");
  temp.Write("m/mean", "");
  fs::create_symlink("mean", folder + "/inside");
  fs::create_symlink("../secret", folder + "/outside");
  const auto file_of = [&](const std::string& name, const char* phase = "TEST") {
    NetFile net = ParseNet("layer { name: 'f' type: 'PixelsToFloat' bottom: 'x' top: 'y'\n" +
                               std::string("include { phase: ") + phase +
                               " } transform_param { mean_file: '" + name + "' } }",
                           "net.prototxt");
    ConfineFilesTo(folder, &net);
    return net.net.layer(0).transform_param().mean_file();
  };
  EXPECT_EQ(file_of("mean"), folder + "/mean");
  EXPECT_EQ(file_of("./inside"), folder + "/mean");
  EXPECT_EQ(file_of("missing"), folder + "/missing") << "whoever opens it says so";
  EXPECT_EQ(file_of("/etc/shadow", "TRAIN"), "/etc/shadow") << "which nobody opens";
  for (const std::string& bad :
       Strings{"/etc/shadow", folder + "/mean", "../secret", "x/../../secret", "outside"}) {
    try {
      file_of(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("outside the folder of its model"),
                std::string::npos)
          << error.what();
    }
  }
}

// A layer of type Python would run any module of the machine.
TEST(DeployNet, ModelsOfOthersRunNoPython) {
  const char* const text =
      "layer { name: 'py' type: 'Python' python_param { module: 'm' layer: 'L' } }";
  NetFile net = ParseNet(text, "net.prototxt");
  const auto expect_refusal = [](auto&& call) {
    try {
      call();
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_EQ(error.problems().front().where.layer, "py");
    }
  };
  expect_refusal([&] { ConfineFilesTo("/", &net); });
  expect_refusal([&] { RefuseOtherFiles(net, InferenceState(net.net)); });
}

}  // namespace
}  // namespace crema
