// Plugins in commands, run folders and .crema files.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Bin;
using test::ProcessResult;
using test::RunProcess;

const std::string kPlugin = CREMA_PLUGINS "/plugin_softsign.so";

constexpr const char* kLayers = R"(
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "soft" type: "ScaledSoftsign" bottom: "ip" top: "soft"
  plugin_param { param_str: "scale: 1.5" } }
)";

class PluginCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("train.prototxt", StrCat(R"(name: "soft"
layer { name: "data" type: "DummyData" top: "data" top: "target"
  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 0.5 } } })",
                                         kLayers, R"(
layer { name: "loss" type: "EuclideanLoss" bottom: "soft" bottom: "target" top: "loss" }
)"));
    temp_.Write("deploy.prototxt", StrCat(R"(name: "soft"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } })",
                                          kLayers));
    temp_.Write("solver.prototxt",
                "net: 'train.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 5 display: 1 "
                "snapshot: 5 snapshot_prefix: 'soft' random_seed: 1");
  }

  ProcessResult Run(std::vector<std::string> command) const {
    command[0] = Bin(command[0]);
    return RunProcess(command, temp_.path());
  }
  void Expect(const std::vector<std::string>& command) const {
    const ProcessResult result = Run(command);
    EXPECT_EQ(result.exit_code, 0) << Join(command, " ") << "\n" << result.err;
  }
  void ExpectMistake(const std::vector<std::string>& command, const std::string& text) const {
    const ProcessResult result = Run(command);
    EXPECT_EQ(result.exit_code, 2) << Join(command, " ") << "\n" << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  test::TempDir temp_;
};

TEST_F(PluginCommands, TrainExportAndDeploy) {
  Expect({"train", "--solver=solver.prototxt", "--plugin=" + kPlugin});
  const std::string run = temp_.Read("soft_run/run.json");
  EXPECT_NE(run.find(StrCat("\"plugins\":[{\"name\":\"softsign\",\"version\":\"1.0\",\"path\":\"",
                            kPlugin, "\",\"sha256\":\"")),
            std::string::npos)
      << run;
  const std::vector<std::string> weights = {"--model=deploy.prototxt",
                                            "--weights=soft_iter_5.caffemodel"};
  ExpectMistake({"deploy", "export", weights[0], weights[1], "--output=m.crema"},
                "unknown layer type 'ScaledSoftsign'");
  Expect({"deploy", "export", weights[0], weights[1], "--output=m.crema", "--plugin=" + kPlugin});
  Expect({"deploy", "bench", "--model=m.crema", "--seconds=0.01", "--plugin=" + kPlugin});
  ExpectMistake({"deploy", "bench", "--model=m.crema", "--seconds=0.01"},
                "m.crema: has layers of the plugin 'softsign', version 1.0, which is not loaded");
}

TEST_F(PluginCommands, ANetThatIsTrainedLoadsItsPlugins) {
  std::filesystem::create_directory(temp_.File("code"));
  std::filesystem::create_symlink(kPlugin, temp_.File("code/s.so"));
  temp_.Write("train.prototxt", "plugin: 'code/s.so'\n" + temp_.Read("train.prototxt"));
  Expect({"train", "--solver=solver.prototxt"});
  // Its run folder has the net as it ran, with a path that is valid anywhere.
  EXPECT_NE(temp_.Read("soft_run/net.prototxt").find(temp_.File("code/s.so")), std::string::npos);
  Expect(
      {"evaluate", "--model=train.prototxt", "--weights=soft_iter_5.caffemodel", "--iterations=1"});
}

TEST_F(PluginCommands, ANetThatIsOnlyLookedAtLoadsNothing) {
  temp_.Write("deploy.prototxt", "plugin: 'evil.so'\n" + temp_.Read("deploy.prototxt"));
  ExpectMistake({"summary", "--model=deploy.prototxt"}, "--plugin=FILE, for evil.so");
  Expect({"summary", "--model=deploy.prototxt", "--plugin=" + kPlugin});
}

TEST_F(PluginCommands, APluginThatCannotBeLoadedIsAnError) {
  ExpectMistake({"summary", "--model=deploy.prototxt", "--plugin=missing.so"}, "missing.so");
  ExpectMistake({"train", "--solver=solver.prototxt", "--plugin=deploy.prototxt"},
                "deploy.prototxt: is no shared library");
}

}  // namespace
}  // namespace crema
