// deploy with --run, --solver or a training net in place of a deploy net.
#include <gtest/gtest.h>

#include <filesystem>

#include "format/prototxt.h"
#include "tools/run_folder.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ProcessResult;

class DeployTraining : public test::RunFolder {
 protected:
  void SetUp() override {
    RunFolder::SetUp();
    Edit("net.prototxt", "include { phase: TEST }\n  transform_param { scale: 0.00390625 }",
         "include { phase: TEST }\n  transform_param { scale: 0.00390625 mean_value: 3 }");
    // Class n is the gray level 20 n.
    for (int c = 0; c < kClasses; ++c) {
      temp_.Write(StrCat("g", c, ".pgm"),
                  "P5\n6 6\n255\n" + std::string(36, static_cast<char>(20 * c)));
    }
  }

  void Train() {
    const ProcessResult trained = Run("train", {"--solver=solver.prototxt", "-q"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }

  ProcessResult Deploy(std::vector<std::string> arguments, const std::string& folder = "") {
    arguments.insert(arguments.begin(), test::Bin("deploy"));
    return test::RunProcess(arguments, folder.empty() ? temp_.path() : folder);
  }

  void ExpectError(const ProcessResult& result, int code, const std::string& text) {
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  // The deploy net as somebody writes it.
  void WriteByHand() {
    temp_.Write("deploy.prototxt", R"(
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 6 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 16 } }
layer { name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
)");
  }
};

#ifdef CREMA_HAVE_OPENCV
TEST_F(DeployTraining, ARunAnswersAsTheDeployNetWrittenByHand) {
  Train();
  WriteByHand();
  const std::vector<std::string> images = {"g0.pgm", "g1.pgm", "g2.pgm", "g3.pgm"};
  const auto classify = [&](std::vector<std::string> model) {
    model.insert(model.begin(), {"classify", "--json"});
    model.insert(model.end(), images.begin(), images.end());
    const ProcessResult result = Deploy(model);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string expected = classify({"--model=deploy.prototxt", "--scale=0.00390625",
                                         "--mean=3", "--weights=snap_iter_8.caffemodel"});
  EXPECT_NE(expected, classify({"--model=deploy.prototxt", "--scale=0.00390625",
                                "--weights=snap_iter_8.caffemodel"}));
  EXPECT_EQ(classify({"--run=snap_run"}), expected);
  EXPECT_EQ(classify({"--solver=solver.prototxt"}), expected);
  EXPECT_EQ(classify({"--model=net.prototxt", "--weights=snap_iter_8.caffemodel"}), expected);
  ASSERT_EQ(Deploy({"export", "--run=snap_run", "-o", "m.crema"}).exit_code, 0);
  EXPECT_EQ(classify({"--model=m.crema"}), expected);
  // A written net has the preprocessing, whose fields flags override.
  ASSERT_EQ(Deploy({"export", "--run=snap_run", "--write_net=d.prototxt"}).exit_code, 0);
  const std::vector<std::string> written = {"--model=d.prototxt",
                                            "--weights=snap_iter_8.caffemodel"};
  EXPECT_EQ(classify(written), expected);
  EXPECT_NE(classify({written[0], written[1], "--mean=0"}), expected);
  ASSERT_EQ(Deploy({"export", written[0], written[1], "-o", "d.crema"}).exit_code, 0);
  EXPECT_EQ(classify({"--model=d.crema"}), expected);
  const std::vector<std::string> plain = {"--mean=0", "--scale=1"};
  ASSERT_EQ(
      Deploy({"export", written[0], written[1], plain[0], plain[1], "-o", "e.crema"}).exit_code, 0);
  EXPECT_EQ(classify({"--model=e.crema"}),
            classify({"--model=deploy.prototxt", "--weights=snap_iter_8.caffemodel"}));
  // Flags have priority.
  EXPECT_EQ(classify({"--run=snap_run", "--mean=0"}),
            classify({"--model=deploy.prototxt", "--scale=0.00390625",
                      "--weights=snap_iter_8.caffemodel"}));
}

TEST_F(DeployTraining, ClassNamesComeFromTheRun) {
  temp_.Write("train_lmdb/labels.txt", "black\ndark\ngray\nlight\n");
  Train();
  EXPECT_EQ(temp_.Read("snap_run/labels.txt"), "black\ndark\ngray\nlight\n");
  fs::remove(temp_.File("train_lmdb/labels.txt"));
  ASSERT_EQ(Deploy({"export", "--run=snap_run", "-o", "m.crema"}).exit_code, 0);
  const std::string out = Deploy({"classify", "--model=m.crema", "--json", "g0.pgm"}).out;
  for (const char* name : {"black", "dark", "gray", "light"}) {
    EXPECT_NE(out.find(StrCat("\"label\": \"", name, "\"")), std::string::npos) << out;
  }
}

TEST_F(DeployTraining, NamesOfOtherClassesAreLeftOut) {
  temp_.Write("train_lmdb/labels.txt", "one\ntwo\n");
  Train();
  const ProcessResult result = Deploy({"classify", "--run=snap_run", "--top=1", "g0.pgm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("one"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("names 2 classes, but the net has 4"), std::string::npos) << result.err;
}
#endif

TEST_F(DeployTraining, TheBestModelCountsIfTheSolverKeepsOne) {
  const auto weights = [&] { return Deploy({"export", "--run=snap_run", "-o", "m.crema"}).err; };
  Train();
  EXPECT_NE(weights().find("weights: snap_iter_8.caffemodel (the last snapshot)"),
            std::string::npos);
  fs::remove_all(temp_.File("snap_run"));
  Edit("solver.prototxt", "snapshot: 4", "snapshot: 4 snapshot_best { metric: \"loss\" }");
  Train();
  EXPECT_NE(weights().find("weights: snap_best.caffemodel (the best model)"), std::string::npos)
      << weights();
  EXPECT_EQ(
      Deploy({"export", "--run=snap_run", "--weights=snap_iter_4.caffemodel", "-o", "n.crema"})
          .err.find("the best model"),
      std::string::npos);
}

TEST_F(DeployTraining, ARunIsFoundFromOtherFoldersAndAfterAMove) {
  fs::create_directory(temp_.File("elsewhere"));
  Train();
  EXPECT_EQ(
      Deploy({"export", "--run=../snap_run", "-o", "m.crema"}, temp_.File("elsewhere")).exit_code,
      0);
  for (const char* name : {"snap_run", "snap_iter_8.caffemodel", "snap_iter_8.solverstate"}) {
    fs::rename(temp_.File(name), temp_.File(StrCat("elsewhere/", name)));
  }
  fs::remove(temp_.File("snap_iter_4.solverstate"));
  const ProcessResult moved = Deploy({"export", "--run=elsewhere/snap_run", "-o", "m.crema"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_NE(moved.err.find("elsewhere/snap_iter_8.caffemodel"), std::string::npos) << moved.err;
}

TEST_F(DeployTraining, TestNetsWithATextOfTheirOwn) {
  const std::string net = temp_.Read("net.prototxt");
  const size_t test = net.find("layer { name: \"data\"", net.find("phase: TRAIN"));
  const size_t ip1 = net.find("layer { name: \"ip1\"");
  const size_t loss = net.find("layer { name: \"loss\"");
  const std::string hidden = net.substr(ip1, loss - ip1);
  temp_.Write("train.prototxt", net.substr(0, test) + net.substr(ip1));
  Edit("solver.prototxt", "net: \"net.prototxt\"",
       "train_net: \"train.prototxt\" test_net: \"test.prototxt\"");
  const auto layers = [&](const std::string& model) {
    const ProcessResult result = Deploy({"export", model, "--write_net=-"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ParseNet(result.out, "printed").net.layer_size();
  };
  // The Softmax is that of the loss in the training net.
  const std::string data = net.substr(test, ip1 - test);
  temp_.Write("test.prototxt", data + hidden + R"(
layer { name: "acc" type: "Accuracy" bottom: "ip2" bottom: "label" top: "acc" })");
  EXPECT_EQ(layers("--solver=solver.prototxt"), 5);
  Train();
  EXPECT_EQ(layers("--run=snap_run"), 5);
  // A test net with a loss counts, here one without the ReLU.
  std::string without = hidden;
  const size_t relu = without.find("layer { name: \"relu\"");
  without.erase(relu, without.find('\n', relu) - relu);
  temp_.Write("test.prototxt", data + without + net.substr(loss));
  EXPECT_EQ(layers("--solver=solver.prototxt"), 4);
  Train();
  EXPECT_EQ(layers("--run=snap_run_2"), 4);
}

TEST_F(DeployTraining, MeanFilesAreFoundFromOtherFolders) {
  BlobProto mean;
  for (const int64_t dim : {1, 1, 6, 6}) mean.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 36; ++i) mean.add_data(3);
  temp_.Write("mean.binaryproto", mean.SerializeAsString());
  Edit("net.prototxt", "mean_value: 3", "mean_file: \"mean.binaryproto\"");
  fs::create_directory(temp_.File("elsewhere"));
  Train();
  const ProcessResult printed =
      Deploy({"export", "--run=../snap_run", "--write_net=-"}, temp_.File("elsewhere"));
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("--mean=FILE --scale=0.00390625"), std::string::npos) << printed.out;
}

TEST_F(DeployTraining, AnotherRunOfThePrefixWarns) {
  Train();
  Train();
  const ProcessResult first = Deploy({"export", "--run=snap_run", "-o", "m.crema"});
  EXPECT_NE(first.err.find("the run in snap_run_2 writes snapshots of the same prefix"),
            std::string::npos)
      << first.err;
  const ProcessResult second = Deploy({"export", "--run=snap_run_2", "-o", "m.crema"});
  EXPECT_EQ(second.err.find("of the same prefix"), std::string::npos) << second.err;
}

TEST_F(DeployTraining, TheNetCanBeWrittenWithoutWeights) {
  const ProcessResult printed = Deploy({"export", "--model=net.prototxt", "--write_net=-"});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  const NetFile net = ParseNet(printed.out, "printed");
  ASSERT_EQ(net.net.preprocessing().mean_size(), 1);
  EXPECT_EQ(net.net.preprocessing().mean(0), 3);
  EXPECT_EQ(net.net.preprocessing().scale(), 0.00390625F);
  ASSERT_EQ(net.net.layer_size(), 5);
  EXPECT_EQ(net.net.layer(0).type(), "Input");
  EXPECT_EQ(net.net.layer(4).type(), "Softmax");
  EXPECT_EQ(Deploy({"export", "--solver=solver.prototxt", "--write_net=d.prototxt"}).exit_code, 0);
  EXPECT_EQ(ReadNet(temp_.File("d.prototxt")).net.layer_size(), 5);
  ExpectError(Deploy({"export", "--model=net.prototxt", "--write_net=net.prototxt"}), 2,
              "--write_net");
}

TEST_F(DeployTraining, MistakesAreExplained) {
  ExpectError(Deploy({"export", "--run=none", "-o", "m.crema"}), 2, "there is no such folder");
  ExpectError(Deploy({"export", "--run=train_lmdb", "-o", "m.crema"}), 2, "is no run folder");
  ExpectError(Deploy({"export", "--run=snap_run", "--solver=solver.prototxt", "-o", "m.crema"}), 2,
              "give only one of --model, --run and --solver");
  ExpectError(Deploy({"export", "--solver=solver.prototxt", "-o", "m.crema"}), 2,
              "the training has no snapshot 'snap_iter_N'");
  ExpectError(Deploy({"export", "--model=net.prototxt", "-o", "m.crema"}), 2,
              "--weights is required");
  fs::remove_all(temp_.File("test_lmdb"));
  const std::string unknown = "give the shape of data, for example --shape=";
  ExpectError(Deploy({"export", "--model=net.prototxt", "--write_net=-"}), 2, unknown);
  EXPECT_EQ(
      Deploy({"export", "--model=net.prototxt", "--write_net=-", "--shape=data=1x1x6x6"}).exit_code,
      0);
}

}  // namespace
}  // namespace crema
