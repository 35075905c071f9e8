// Caffe's programs by their names: caffe-tools/caffe and the links to it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"
#include "format/caffemodel.h"
#include "format/data_file.h"
#include "runtime/gpu.h"
#include "tools/data_set.h"
#include "tools/run_folder.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

constexpr int kFlagError = 1;  // of gflags
constexpr int kFatal = 134;    // SIGABRT, as a shell sees it

std::string CaffeTool(const std::string& name) { return CREMA_BIN_DIR "/../caffe-tools/" + name; }

ProcessResult RunCaffeTool(const std::string& name, std::vector<std::string> arguments,
                           const std::string& folder = "") {
  arguments.insert(arguments.begin(), CaffeTool(name));
  return RunProcess(arguments, folder);
}

// Returns the number after each `start`, as in "accuracy = 0.5".
std::vector<double> NumbersAfter(const std::string& text, const std::string& start) {
  std::vector<double> numbers;
  for (size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    numbers.push_back(std::atof(text.c_str() + at + start.size()));
  }
  return numbers;
}

class Caffe : public RunFolder {
 protected:
  ProcessResult Run(std::vector<std::string> arguments) {
    return RunCaffeTool("caffe", std::move(arguments), temp_.path());
  }
  void Train() {
    const ProcessResult result = Run({"train", "--solver=solver.prototxt"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
};

TEST_F(Caffe, TrainsWithTheLinesThatParsersOfLogsRead) {
  const ProcessResult result = Run({"train", "--solver=solver.prototxt"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* line : {"] Solving small", "] Iteration 4, Testing net (#0)",
                           "    Test net output #0: loss = ", "] Optimization Done."}) {
    EXPECT_TRUE(Contains(result.err, line)) << line << "\n" << result.err;
  }
  EXPECT_TRUE(fs::exists(temp_.File("snap_iter_8.caffemodel")));
  EXPECT_EQ(result.out, "") << "parse_log.sh would take results there for iterations";
}

TEST_F(Caffe, TakesFlagsInAllFormsOfGflagsBeforeAndAfterTheCommand) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-solver", "solver.prototxt", "train"},
        {"train", "-solver=solver.prototxt"},
        {"--logtostderr", "--solver", "solver.prototxt", "-nologtostderr", "train"},
        {"--solver=solver.prototxt", "--", "train"}}) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(RunCaffeTool("caffe.bin", {"train", "-solver=solver.prototxt"}, temp_.path()).exit_code,
            0);
}

TEST_F(Caffe, SignalsReachTheTraining) {
  Edit("solver.prototxt", "max_iter: 8", "max_iter: 2000000000");
  Edit("solver.prototxt", "test_interval: 4", "test_interval: 2000000000");
  Edit("solver.prototxt", "snapshot: 4", "snapshot: 0");
  Process train({CaffeTool("caffe"), "train", "--solver=solver.prototxt"}, temp_.path(),
                temp_.File("out"), temp_.File("err"));
  const auto has_said = [&](const std::string& text) {
    while (!Contains(temp_.Read("err"), text)) {
      if (train.EndsWithin(std::chrono::milliseconds(2))) return false;
    }
    return true;
  };
  ASSERT_TRUE(has_said("] Iteration 0, Testing net")) << temp_.Read("err");
  train.Signal(SIGHUP);
  ASSERT_TRUE(has_said("] Snapshotting solver state")) << temp_.Read("err");
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 0) << temp_.Read("err");
  EXPECT_TRUE(Contains(temp_.Read("err"), "] Optimization stopped early."));
}

TEST_F(Caffe, ResumesFromASnapshot) {
  Train();
  const ProcessResult result =
      Run({"train", "--solver=solver.prototxt", "--snapshot=snap_iter_4.solverstate"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(Contains(result.err, "] Iteration 0,")) << result.err;
  EXPECT_TRUE(Contains(result.err, "] Iteration 8, Testing net")) << result.err;
}

TEST_F(Caffe, TestPrintsEachBatchAndTheMeans) {
  Train();
  const ProcessResult result = Run(
      {"test", "--model=net.prototxt", "--weights=snap_iter_8.caffemodel", "--iterations", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.err, "] Running for 2 iterations.")) << result.err;
  const std::vector<double> first = NumbersAfter(result.err, "] Batch 0, loss = ");
  const std::vector<double> second = NumbersAfter(result.err, "] Batch 1, loss = ");
  const std::vector<double> total = NumbersAfter(result.err, "] Loss: ");
  const std::vector<double> mean = NumbersAfter(result.err, "] loss = ");
  ASSERT_EQ(first.size() + second.size() + total.size() + mean.size(), 4U) << result.err;
  EXPECT_NEAR(mean[0], (first[0] + second[0]) / 2, 1e-5);
  EXPECT_EQ(mean[0], total[0]);
  EXPECT_TRUE(Contains(result.err, " (* 1 = ")) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(Caffe, TestRunsFiftyBatchesUnlessToldOtherwise) {
  Train();
  const ProcessResult result =
      Run({"test", "--model=net.prototxt", "--weights=snap_iter_8.caffemodel"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.err, "] Batch 49, loss = ")) << result.err;
  EXPECT_FALSE(Contains(result.err, "] Batch 50, ")) << result.err;
}

TEST_F(Caffe, TimePrintsEachLayerInTheOrderOfTheNet) {
  const ProcessResult result = Run({"time", "--model=net.prototxt", "--iterations=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  size_t at = 0;
  for (const char* line :
       {"] Initial loss: ", "] *** Benchmark begins ***", "] Testing for 2 iterations.",
        "] Iteration: 2 forward-backward time: ", "] Average time per layer: ",
        "]       data\tforward: ", "]        ip1\tforward: ", "]        ip1\tbackward: ",
        "]       relu\tforward: ", "]        ip2\tforward: ", "]       loss\tbackward: ",
        "] Average Forward pass: ", "] Average Backward pass: ", "] Average Forward-Backward: ",
        "] Total Time: ", "] *** Benchmark ends ***"}) {
    const size_t found = result.err.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << "\n" << result.err;
    at = found;
  }
  EXPECT_GT(NumbersAfter(result.err, "ip1\tforward: ")[0], 0);
  EXPECT_GT(NumbersAfter(result.err, "Average Backward pass: ")[0], 0);
  const ProcessResult of_test =
      Run({"time", "--model=net.prototxt", "--iterations=1", "--phase=TEST"});
  ASSERT_EQ(of_test.exit_code, 0) << of_test.err;
  EXPECT_EQ(NumbersAfter(of_test.err, "Average Backward pass: ")[0], 0);
}

TEST_F(Caffe, MistakesHaveTheExitCodesOfCaffe) {
  Train();
  struct Mistake {
    std::vector<std::string> arguments;
    int exit_code;
    std::string message;
  };
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"train", "--solvr=solver.prototxt"}, kFlagError, "unknown flag '--solvr=solver"},
           {{"train", "--solver"}, kFlagError, "flag --solver needs a value"},
           {{"test", "--iterations=two"}, kFlagError, "takes a whole number, not 'two'"},
           {{"test", "--iterations=3000000000"}, kFlagError, "of 32 bits"},
           {{"train", "--logtostderr=maybe"}, kFlagError, "takes true or false"},
           {{"trian", "--solver=solver.prototxt"}, kFatal, "unknown action 'trian'"},
           {{"train"}, kFatal, "--solver is required"},
           {{"test", "--weights=w"}, kFatal, "--model is required"},
           {{"test", "--model=net.prototxt"}, kFatal, "--weights is required"},
           {{"time"}, kFatal, "--model is required"},
           {{"train", "--solver=none.prototxt"}, kFatal, "none.prototxt"},
           {{"test", "--model=net.prototxt", "--weights=none"}, kFatal, "none"},
           {{"test", "--model=net.prototxt", "--weights=w", "--iterations=0"}, kFatal, "1 or more"},
           {{"time", "--model=net.prototxt", "--phase=train"}, kFatal, "not TRAIN or TEST"},
           {{"train", "--solver=solver.prototxt", "--sigint_effect=no"}, kFatal, "sigint_effect"},
           {{"train", "--solver=solver.prototxt", "--snapshot=snap_iter_4.solverstate",
             "--weights=snap_iter_4.caffemodel"},
            kFatal,
            "not both"}}) {
    const ProcessResult result = Run(mistake.arguments);
    EXPECT_EQ(result.exit_code, mistake.exit_code) << Join(mistake.arguments, " ") << result.err;
    EXPECT_TRUE(Contains(result.err, mistake.message)) << result.err;
  }
}

TEST_F(Caffe, WithoutACommandItPrintsItsUsage) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"train", "test"}, {"--solver=solver.prototxt"}}) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(Contains(result.out, "usage: caffe COMMAND")) << result.out;
  }
  EXPECT_EQ(Run({"--help"}).exit_code, kFlagError);
  EXPECT_TRUE(Contains(Run({"--version"}).out, "caffe version 1.0.0")) << "as Caffe's last release";
}

TEST_F(Caffe, DeviceQueryIsAboutTheGpusOfTheFlag) {
  const ProcessResult nothing = Run({"device_query"});
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(nothing.out + nothing.err, "");
  EXPECT_EQ(Run({"device_query", "--gpu=99999"}).exit_code, kFatal);
  const ProcessResult all = Run({"device_query", "--gpu=all"});
  EXPECT_EQ(all.exit_code, WhyNoGpu().empty() ? 0 : kFatal);
  EXPECT_EQ(Contains(all.err, "Device id:                     0"), WhyNoGpu().empty());
}

TEST_F(Caffe, FlagsOfTheEnvironmentDoNotCount) {
  const ProcessResult result = RunProcess({"/usr/bin/env", "flag_solver=solver.prototxt",
                                           CREMA_BIN_DIR "/../caffe-tools/caffe", "train"},
                                          temp_.path());
  EXPECT_EQ(result.exit_code, kFatal) << result.err;
}

TEST_F(Caffe, ExtractFeaturesWritesDatumsOfBothKinds) {
  Train();
  for (const std::string kind : {"lmdb", "leveldb"}) {
    if (kind == "leveldb" && !testing::CanWrite(DataParameter::LEVELDB, temp_)) continue;
    const ProcessResult result =
        RunCaffeTool("extract_features",
                     {"snap_iter_8.caffemodel", "net.prototxt", "ip1,ip2",
                      StrCat("ip1_", kind, ",ip2_", kind), "3", kind, "CPU"},
                     temp_.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Records records = ReadAll(temp_.File("ip1_" + kind));
    ASSERT_EQ(records.size(), 24U);
    EXPECT_EQ(records[23].first, "0000000023");
    EXPECT_EQ(ParseDatum(records[0].second).float_data_size(), 16);
    EXPECT_EQ(ParseDatum(ReadAll(temp_.File("ip2_" + kind))[0].second).float_data_size(), 4);
  }
  EXPECT_EQ(RunCaffeTool("extract_features", {"w", "n", "b", "d", "3"}).exit_code, kFlagError);
  EXPECT_EQ(RunCaffeTool("extract_features",
                         {"snap_iter_8.caffemodel", "net.prototxt", "ip9", "x", "3", "lmdb"},
                         temp_.path())
                .exit_code,
            kFatal);
}

TEST_F(Caffe, UpgradesTakeTwoFiles) {
  temp_.Write("old.prototxt",
              "layers { name: 'a' type: INNER_PRODUCT bottom: 'data' top: 'a' "
              "inner_product_param { num_output: 2 } }");
  temp_.Write("old_solver.prototxt", "net: 'old.prototxt' solver_type: ADAM base_lr: 0.1");
  ASSERT_EQ(RunCaffeTool("upgrade_net_proto_text", {"old.prototxt", "new.prototxt"}, temp_.path())
                .exit_code,
            0);
  EXPECT_TRUE(Contains(temp_.Read("new.prototxt"), "type: \"InnerProduct\""));
  ASSERT_EQ(RunCaffeTool("upgrade_solver_proto_text",
                         {"old_solver.prototxt", "new_solver.prototxt"}, temp_.path())
                .exit_code,
            0);
  EXPECT_TRUE(Contains(temp_.Read("new_solver.prototxt"), "type: \"Adam\""));
  Train();
  ASSERT_EQ(RunCaffeTool("upgrade_net_proto_binary", {"snap_iter_8.caffemodel", "new.caffemodel"},
                         temp_.path())
                .exit_code,
            0);
  EXPECT_EQ(ReadCaffemodel(temp_.File("new.caffemodel")).layer_size(), 5);
  temp_.Write("broken.prototxt", "layer {");
  EXPECT_EQ(
      RunCaffeTool("upgrade_net_proto_text", {"broken.prototxt", "x"}, temp_.path()).exit_code, 2);
  EXPECT_EQ(RunCaffeTool("upgrade_net_proto_text", {"old.prototxt"}, temp_.path()).exit_code, 1);
  const std::vector<std::string> in_place = {"old.prototxt", "old.prototxt"};
  EXPECT_EQ(RunCaffeTool("upgrade_net_proto_text", in_place, temp_.path()).exit_code, 0);
  EXPECT_EQ(temp_.Read("old.prototxt"), temp_.Read("new.prototxt"));
}

TEST(CaffeTools, LieWhereScriptsOfCaffeExpectThem) {
  const fs::path build = CREMA_BIN_DIR "/../caffe-tools/build";
  for (const char* program :
       {"tools/caffe", "tools/caffe.bin", "tools/convert_imageset", "tools/compute_image_mean",
        "tools/extract_features.bin", "tools/create_label_map", "tools/get_image_size.bin",
        "examples/mnist/convert_mnist_data.bin", "examples/cifar10/convert_cifar_data.bin",
        "examples/siamese/convert_mnist_siamese_data.bin"}) {
    const ProcessResult help = RunProcess({build / program, "--help"});
    EXPECT_TRUE(Contains(help.out + help.err, "usage: ")) << program << help.out << help.err;
  }
}

TEST(CaffeTools, ProgramsThatCaffeHasGivenUpNameTheirSuccessors) {
  for (const auto& [name, command] :
       {std::pair{"train_net", "caffe train"}, std::pair{"finetune_net.bin", "caffe train"},
        std::pair{"test_net", "caffe test"}, std::pair{"net_speed_benchmark", "caffe time"},
        std::pair{"device_query", "caffe device_query"}}) {
    const ProcessResult result = RunCaffeTool(name, {"solver.prototxt"});
    EXPECT_EQ(result.exit_code, kFatal) << name;
    EXPECT_TRUE(Contains(result.err, command)) << result.err;
  }
}

TEST(CaffeTools, ConvertImagesetLeavesOutWhatItCannotRead) {
  const TempDir temp;
  temp.Write("a.png", Png(Pattern(6, 8)));
  temp.Write("b c.png", Png(Pattern(4, 4)));
  temp.Write("list.txt", "a.png 3\nbroken.png 1\nb c.png 2\n");
  const ProcessResult result = RunCaffeTool(
      "convert_imageset", {"-resize_height=5", "--resize_width=5", "--gray", "--shuffle=false",
                           temp.path() + "/", temp.File("list.txt"), temp.File("db")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Records records = ReadAll(temp.File("db"));
  ASSERT_EQ(Keys(records), (std::vector<std::string>{"00000000_a.png", "00000002_b c.png"}));
  const Datum datum = ParseDatum(records[0].second);
  EXPECT_EQ(datum.label(), 3);
  EXPECT_EQ(datum.channels() * 100 + datum.height() * 10 + datum.width(), 155);
  EXPECT_EQ(RunCaffeTool("convert_imageset", {temp.path(), temp.File("list.txt")}).exit_code, 1);
  EXPECT_EQ(RunCaffeTool("convert_imageset", {temp.path(), temp.File("list.txt"), temp.File("db")})
                .exit_code,
            kFatal)
      << "the data set exists";
  // As in Caffe, one size alone does nothing.
  const ProcessResult one =
      RunCaffeTool("convert_imageset", {"-resize_height", "5", "-noshuffle", temp.path() + "/",
                                        temp.File("list.txt"), temp.File("unchanged")});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(ParseDatum(ReadAll(temp.File("unchanged"))[0].second).height(), 6);
  const ProcessResult mean =
      RunCaffeTool("compute_image_mean", {"-backend=lmdb", temp.File("db"), temp.File("m")});
  ASSERT_EQ(mean.exit_code, 0) << mean.err;
  EXPECT_TRUE(Contains(mean.out, "mean_value channel [0]: ")) << mean.out;
  EXPECT_EQ(ReadBlobProtoFile(temp.File("m")).data_size(), 25);
  EXPECT_EQ(RunCaffeTool("compute_image_mean", {}).exit_code, 1);
}

TEST(CaffeTools, CreateLabelMapNumbersTheClasses) {
  const TempDir temp;
  const auto make = [&](std::vector<std::string> flags, const std::string& text) {
    temp.Write("names.txt", text);
    fs::remove(temp.File("map"));
    flags.insert(flags.end(), {temp.File("names.txt"), temp.File("map")});
    return RunCaffeTool("create_label_map", flags);
  };
  const auto items = [&] {
    std::string text;
    const LabelMap map = ReadLabelMap(temp.File("map"));
    for (const LabelMapItem& item : map.item()) {
      text += StrCat(item.label(), " ", item.name(), " ", item.display_name(), ";");
    }
    return text;
  };
  ASSERT_EQ(make({}, "cat\n\ndog\r\n").exit_code, 0);
  EXPECT_EQ(items(), "0 cat cat;1 dog dog;");
  ASSERT_EQ(make({"--include_background"}, "cat\ndog").exit_code, 0);
  EXPECT_EQ(items(), "0 none_of_the_above background;1 cat cat;2 dog dog;");
  ASSERT_EQ(make({}, "cat 7\ndog 3\n").exit_code, 0);
  EXPECT_EQ(items(), "7 cat cat;3 dog dog;");
  ASSERT_EQ(
      make({"-delimiter", ",;", "-include_background=true"}, "n01,1;a house cat\nn02;2,a dog\n")
          .exit_code,
      0);
  EXPECT_EQ(items(), "0 none_of_the_above background;1 n01 a house cat;2 n02 a dog;");
  for (const auto& [text, message] :
       {std::pair{"cat\ndog 2\n",
                  "names.txt:2:1: 'dog 2' has 2 fields, expected 1 as in the first"},
        std::pair{"a 1 b c\n", "names.txt:1:1: 'a 1 b c' has 4 fields, expected NAME [LABEL"},
        std::pair{"cat one\n", "names.txt:1:1: the label 'one' is not a whole number"},
        std::pair{"cat 1\ncat 2\n", "names.txt:2:1: the class 'cat' is given twice"},
        std::pair{"cat 1\ndog 1\n", "names.txt:2:1: the label 1 is given twice"},
        std::pair{"\n", "names no class"}}) {
    const ProcessResult result = make({}, text);
    EXPECT_EQ(result.exit_code, kFatal);
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
    EXPECT_FALSE(fs::exists(temp.File("map")));
  }
  EXPECT_EQ(RunCaffeTool("create_label_map", {"names.txt"}).exit_code, 1);
  temp.Write("names.txt", "cat\n");
  EXPECT_TRUE(Contains(
      RunCaffeTool("create_label_map", {temp.File("names.txt"), temp.File("names.txt")}).err,
      "which is read"));
}

TEST(CaffeTools, GetImageSizeWritesWhatDetectionOutputReads) {
  const TempDir temp;
  fs::create_directories(temp.File("JPEGImages"));
  temp.Write("JPEGImages/a.png", Png(Pattern(6, 8)));
  temp.Write("JPEGImages/b c.png", Png(Pattern(5, 4)));
  temp.Write("list.txt", "JPEGImages/a.png Annotations/a.xml\nJPEGImages/b c.png 1\n\n");
  temp.Write("ids.txt", "b c 12\na 7\n");
  const auto run = [&](std::vector<std::string> flags) {
    fs::remove(temp.File("sizes.txt"));
    flags.insert(flags.end(), {temp.path() + "/", temp.File("list.txt"), temp.File("sizes.txt")});
    return RunCaffeTool("get_image_size", flags);
  };
  ASSERT_EQ(run({}).exit_code, 0);
  EXPECT_EQ(temp.Read("sizes.txt"), "a 6 8\nb c 5 4\n");
  ASSERT_EQ(run({"--name_id_file=" + temp.File("ids.txt")}).exit_code, 0);
  EXPECT_EQ(temp.Read("sizes.txt"), "7 6 8\n12 5 4\n");
  const auto fails = [&](const std::vector<std::string>& flags, const std::string& message) {
    const ProcessResult result = run(flags);
    EXPECT_EQ(result.exit_code, kFatal);
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
    EXPECT_FALSE(fs::exists(temp.File("sizes.txt")));
  };
  temp.Write("ids.txt", "a 7\n");
  fails({"--name_id_file", temp.File("ids.txt")}, "has no name 'b c' (line 2 of");
  temp.Write("ids.txt", "a 7\na 8\n");
  fails({"--name_id_file", temp.File("ids.txt")}, "the name 'a' is given twice");
  temp.Write("list.txt", "JPEGImages/a.png 0\nJPEGImages/none.png 0\n");
  fails({}, "JPEGImages/none.png");
  temp.Write("list.txt", "list.txt 0\n");
  fails({}, "line 1 of");
  temp.Write("list.txt", "JPEGImages/a.png\n");
  fails({}, "list.txt:1:1: 'JPEGImages/a.png' is not `path label`");
  temp.Write("list.txt", "");
  fails({}, "has no line `path label`");
  EXPECT_EQ(RunCaffeTool("get_image_size", {temp.path(), temp.File("list.txt")}).exit_code, 1);
}

}  // namespace
}  // namespace crema::test
