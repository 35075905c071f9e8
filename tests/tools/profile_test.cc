// The command profile: its table, its JSON, its trace, and what it refuses.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "runtime/weights.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using test::Bin;
using test::Contains;
using test::ProcessResult;

constexpr const char* kProfiledNet = R"(name: "small"
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "nowhere" batch_size: 4 } transform_param { crop_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "conv" top: "tanh" }
layer { name: "scale" type: "Scale" bottom: "tanh" top: "scale" }
layer { name: "ip \"quoted\"" type: "InnerProduct" bottom: "scale" top: "ip" inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

Struct Parse(const std::string& json) {
  Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &object);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json.substr(0, 2000);
  return object;
}

// Returns a required field.
const Value& At(const Struct& object, const std::string& name) {
  static const Value kNothing;
  const auto found = object.fields().find(name);
  if (found != object.fields().end()) return found->second;
  ADD_FAILURE() << "no field " << name << " in " << object.ShortDebugString().substr(0, 500);
  return kNothing;
}
double Number(const Struct& object, const std::string& name) {
  EXPECT_EQ(At(object, name).kind_case(), Value::kNumberValue) << name;
  return At(object, name).number_value();
}

class ProfileTool : public ::testing::Test {
 protected:
  void SetUp() override { temp_.Write("net.prototxt", kProfiledNet); }
  // Uses at most two threads, and given peaks, which need not be measured.
  ProcessResult Run(std::vector<std::string> flags) const {
    std::vector<std::string> command = {Bin("profile"), "--model=net.prototxt", "--iterations=3",
                                        "--warmup=2",   "--threads=2",          "--peak_gflops=100",
                                        "--peak_gbs=10"};
    command.insert(command.end(), flags.begin(), flags.end());
    return test::RunProcess(command, temp_.path());
  }
  Struct RunJson(std::vector<std::string> flags) const {
    flags.push_back("--json");
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Parse(result.out);
  }
  test::TempDir temp_;
};

TEST_F(ProfileTool, TakesThePrecisionsOfGpus) {
  const ProcessResult tf32 = Run({"--precision=tf32"});
  EXPECT_EQ(tf32.exit_code, 0) << tf32.err;
  EXPECT_TRUE(Contains(tf32.err, "the CPU computes in FP32")) << tf32.err;
  const ProcessResult fp16 = Run({"--precision=FP16"});
  EXPECT_NE(fp16.exit_code, 0);
  EXPECT_TRUE(Contains(fp16.err, "precision FP16 is for a GPU")) << fp16.err;
  const ProcessResult fp8 = Run({"--precision=FP8"});
  EXPECT_NE(fp8.exit_code, 0);
  EXPECT_TRUE(Contains(fp8.err, "use FP32 or BF16, on a GPU also TF32 or FP16")) << fp8.err;
}

TEST_F(ProfileTool, JsonHasEveryLayerWithItsPasses) {
  const Struct report = RunJson({});
  EXPECT_EQ(At(report, "net").string_value(), "small");
  EXPECT_EQ(At(report, "phase").string_value(), "TRAIN");
  EXPECT_EQ(Number(report, "batch"), 4);
  EXPECT_EQ(Number(At(report, "peak").struct_value(), "gflops"), 100);
  std::vector<std::string> names;
  double share = 0;
  double layers_ms = 0;
  for (const Value& entry : At(report, "layers").list_value().values()) {
    const Struct& layer = entry.struct_value();
    names.push_back(At(layer, "name").string_value());
    share += Number(layer, "share");
    for (const std::string pass : {"forward", "backward"}) {
      if (At(layer, pass).kind_case() == Value::kNullValue) continue;
      const Struct& times = At(layer, pass).struct_value();
      EXPECT_EQ(Number(times, "runs"), 3);
      EXPECT_LE(Number(times, "median_ms"), Number(times, "p95_ms"));
      EXPECT_NEAR(Number(times, "flop_share"), Number(times, "gflops") / 100, 1e-6);
      EXPECT_NEAR(Number(times, "memory_share"), Number(times, "gbs") / 10, 1e-6);
      layers_ms += Number(times, "total_ms");
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"d", "conv", "tanh", "scale", "ip \"quoted\"", "loss"}));
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 1 + 1e-6);
  EXPECT_LE(layers_ms, Number(At(report, "iteration").struct_value(), "total_ms") * (1 + 1e-6));
}

TEST_F(ProfileTool, JsonCountsProductsAndSaysWhyImplementationsWerePassedOver) {
  const Struct report = RunJson({});
  const Struct& conv = At(report, "layers").list_value().values(1).struct_value();
  const Struct& forward = At(conv, "forward").struct_value();
  EXPECT_EQ(Number(forward, "macs"), 4 * 36 * 27 * 4);
  EXPECT_EQ(Number(At(conv, "backward").struct_value(), "macs"), 4 * 36 * 27 * 4);
  EXPECT_FALSE(At(conv, "implementation").string_value().empty());
  std::string reason;
  for (const auto& value : At(conv, "skipped").list_value().values()) {
    const Struct& skipped = value.struct_value();
    EXPECT_FALSE(At(skipped, "reason").string_value().empty());
    if (At(skipped, "implementation").string_value() != "depthwise") continue;
    reason = At(skipped, "reason").string_value();
  }
  EXPECT_TRUE(Contains(reason, "more than one group")) << reason;
}

TEST_F(ProfileTool, LayersThatRunAgainHaveALineOfTheirOwn) {
  std::string net = kProfiledNet;
  net.insert(net.find("name: \"tanh\""), "recompute: true ");
  temp_.Write("net.prototxt", net);
  const ProcessResult table = Run({"--sort=net", "--trace=t.json"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  const size_t row = table.out.find("\ntanh ");
  ASSERT_NE(row, std::string::npos) << table.out;
  const std::string rows = table.out.substr(row, table.out.find("\nscale ") - row);
  for (const char* pass : {" fwd ", " bwd ", " rec "}) EXPECT_TRUE(Contains(rows, pass)) << rows;
  EXPECT_TRUE(Contains(ReadFile(temp_.File("t.json")), "\"cat\": \"recompute\""));
  const Struct report = RunJson({});
  const Struct& tanh = At(report, "layers").list_value().values(2).struct_value();
  EXPECT_EQ(Number(At(tanh, "recompute").struct_value(), "runs"), 3);
  const Struct& scale = At(report, "layers").list_value().values(3).struct_value();
  EXPECT_EQ(At(scale, "recompute").kind_case(), Value::kNullValue);
}

#ifndef CREMA_SANITIZED  // sanitizers bring an allocator of their own
TEST_F(ProfileTool, NothingIsAllocatedInTheTimedPasses) {
  const Struct report = RunJson({});
  EXPECT_EQ(Number(At(report, "iteration").struct_value(), "allocations"), 0);
}
#endif

TEST_F(ProfileTool, TableFitsAHundredColumns) {
  for (const std::string order : {"time", "net"}) {
    const ProcessResult result = Run({"--sort=" + order});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(Contains(result.out, "images/s: ")) << result.out;
    EXPECT_TRUE(Contains(result.out, "forward and backward")) << result.out;
    EXPECT_TRUE(Contains(result.out, "not depthwise: ")) << result.out;
    EXPECT_TRUE(Contains(result.out, "allocations")) << result.out;
  }
  const std::string table = Run({"--sort=net"}).out;
  EXPECT_LT(table.find("\nconv "), table.find("\nloss "));
}

TEST_F(ProfileTool, InferenceHasNoBackwardAndTakesWeightsAndShapes) {
  const auto plan = test::PlanText(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
      "  inner_product_param { num_output: 2 } }",
      TEST);
  WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("m.caffemodel"));
  temp_.Write("net.prototxt",
              "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
              "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
              "  inner_product_param { num_output: 2 } }");
  const Struct test = RunJson({"--phase=TEST", "--weights=m.caffemodel", "--batch=7"});
  EXPECT_EQ(At(test, "backward").kind_case(), Value::kNullValue);
  EXPECT_EQ(At(test, "no_backward").string_value(), "the phase is TEST");
  EXPECT_EQ(Number(test, "batch"), 7);
  // Without a loss there is no gradient either.
  const Struct train = RunJson({"--shape=x:5,3"});
  EXPECT_TRUE(Contains(At(train, "no_backward").string_value(), "loss"));
  EXPECT_EQ(Number(train, "batch"), 5);
}

TEST_F(ProfileTool, BoxesOfSsdAreMadeUp) {
  const std::string model = std::string(CREMA_SOURCE_DIR) + "/models/ssd300/train_val.prototxt";
  const ProcessResult result =
      test::RunProcess({Bin("profile"), "--model=" + model, "--iterations=1", "--warmup=0",
                        "--batch=1", "--peak_gflops=1", "--peak_gbs=1", "--json"},
                       temp_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "\"name\": \"mbox_loss\""));
}

TEST_F(ProfileTool, MeasuresThePeakWhenItIsNotGiven) {
  const Struct report = RunJson({"--peak_gflops=0", "--peak_gbs=0"});
  EXPECT_GT(Number(At(report, "peak").struct_value(), "gflops"), 0);
  EXPECT_GT(Number(At(report, "peak").struct_value(), "gbs"), 0);
}

TEST_F(ProfileTool, SaysSoWhenThePeakCannotBeRight) {
  const std::string doubt = "the peak of operations is too low";
  EXPECT_TRUE(Contains(Run({"--peak_gflops=0.000001"}).out, doubt));
  EXPECT_FALSE(Contains(Run({"--peak_gflops=1e9"}).out, doubt));
}

// Nanoseconds, exact in the three decimals that are written.
int64_t Nanoseconds(const Struct& event, const std::string& name) {
  return std::llround(Number(event, name) * 1000);
}

// Requirements of the format for a complete event.
void CheckComplete(const Struct& event) {
  EXPECT_FALSE(At(event, "name").string_value().empty());
  EXPECT_FALSE(At(event, "cat").string_value().empty());
  EXPECT_EQ(Number(event, "pid"), 1);
  EXPECT_EQ(Number(event, "tid"), 1);
  EXPECT_GE(Nanoseconds(event, "ts"), 0);
  EXPECT_GE(Nanoseconds(event, "dur"), 0);
  EXPECT_EQ(At(event, "args").kind_case(), Value::kStructValue);
  const std::string& category = At(event, "cat").string_value();
  if (category != "forward" && category != "backward") return;
  const Struct& args = At(event, "args").struct_value();
  for (const std::string name : {"type", "shape", "implementation"}) {
    EXPECT_EQ(At(args, name).kind_case(), Value::kStringValue) << name;
  }
  for (const std::string name : {"gflops", "gbs"}) EXPECT_GE(Number(args, name), 0);
}

// Events of one thread begin in order, and each is nested in the one that it began in.
void CheckNesting(const std::vector<Struct>& events) {
  std::vector<int64_t> open;  // ends
  int64_t last = 0;
  for (const Struct& event : events) {
    const int64_t begin = Nanoseconds(event, "ts");
    const int64_t end = begin + Nanoseconds(event, "dur");
    EXPECT_GE(begin, last);
    last = begin;
    const std::string& category = At(event, "cat").string_value();
    const size_t depth = category == "iteration" ? 0 : category == "pass" ? 1 : 2;
    ASSERT_LE(depth, open.size());
    if (depth < open.size()) {
      EXPECT_LE(open[depth], begin) << "begins before its sibling ended";
    }
    open.resize(depth);
    if (depth > 0) {
      EXPECT_LE(end, open.back()) << "ends after its parent";
    }
    open.push_back(end);
  }
}

TEST_F(ProfileTool, TraceIsInChromesFormat) {
  ASSERT_EQ(Run({"--trace=t.json"}).exit_code, 0);
  const Struct trace = Parse(ReadFile(temp_.File("t.json")));
  EXPECT_EQ(At(trace, "displayTimeUnit").string_value(), "ms");
  std::map<std::string, std::string> metadata;
  std::map<std::string, int> counts;  // by category
  std::vector<Struct> complete;
  for (const Value& entry : At(trace, "traceEvents").list_value().values()) {
    const Struct& event = entry.struct_value();
    const std::string& phase = At(event, "ph").string_value();
    if (phase == "M") {
      metadata[At(event, "name").string_value()] =
          At(At(event, "args").struct_value(), "name").string_value();
      continue;
    }
    ASSERT_EQ(phase, "X");
    CheckComplete(event);
    ++counts[At(event, "cat").string_value()];
    complete.push_back(event);
  }
  CheckNesting(complete);
  EXPECT_EQ(metadata["process_name"], "crema profile: small");
  EXPECT_EQ(metadata["thread_name"], "TRAIN");
  EXPECT_EQ(counts["iteration"], 3);
  EXPECT_EQ(counts["pass"], 2 * 3);
  EXPECT_EQ(counts["forward"], 6 * 3);
  EXPECT_EQ(counts["backward"], 5 * 3);  // all but the data
}

TEST_F(ProfileTool, CremaTimeIsItsNameInCaffe) {
  temp_.Write("crema", ReadFile(std::string(CREMA_SOURCE_DIR) + "/tools/crema.sh"));
  std::filesystem::create_symlink(Bin("profile"), temp_.File("profile"));
  const ProcessResult result =
      test::RunProcess({"/bin/sh", temp_.File("crema"), "time", "-model=net.prototxt",
                        "-iterations", "1", "--peak_gflops=1", "--peak_gbs=1"},
                       temp_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "net \"small\", TRAIN, batch 4")) << result.out;
}

TEST_F(ProfileTool, CremaNamesTheCommandThatIsMeant) {
  temp_.Write("crema", ReadFile(std::string(CREMA_SOURCE_DIR) + "/tools/crema.sh"));
  std::filesystem::create_symlink(Bin("profile"), temp_.File("profile"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"profil", "crema: unknown command 'profil' (did you mean 'profile'?)"},
      {"classify", "crema: unknown command 'classify' (did you mean 'deploy classify'?)"},
      {"predict", "crema: unknown command 'predict' (did you mean 'deploy classify'?)"},
      {"eval", "crema: unknown command 'eval' (did you mean 'evaluate'?)"},
      {"fit", "crema: unknown command 'fit' (did you mean 'train'?)"}};
  for (const auto& [word, message] : cases) {
    for (const std::vector<std::string>& before :
         std::vector<std::vector<std::string>>{{}, {"help"}}) {
      std::vector<std::string> command = {"/bin/sh", temp_.File("crema")};
      command.insert(command.end(), before.begin(), before.end());
      command.push_back(word);
      const ProcessResult result = test::RunProcess(command, temp_.path());
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_EQ(result.err, message + "; crema --help lists all\n");
    }
  }
}

TEST_F(ProfileTool, PrintsItsVersion) {
  const ProcessResult version = Run({"--version"});
  EXPECT_EQ(version.exit_code, 0) << version.err;
  EXPECT_TRUE(version.out.starts_with("crema ")) << version.out;
}

TEST_F(ProfileTool, RefusesBadFlagsAndFiles) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--phase=DEPLOY", "it is test or train"},
      {"--iterations=0", "--iterations is 0"},
      {"--iterations=-5", "--iterations is -5"},
      {"--iterations=many", "--iterations takes a whole number, not 'many'"},
      {"--peak_gbs=fast", "--peak_gbs takes a number, not 'fast'"},
      {"--warmup=-1", "--warmup is -1"},
      {"--batch=-1", "--batch is -1"},
      {"--sort=tim", "did you mean 'time'"},
      {"--peak_gbs=-2", "rates above 0"},
      {"--peak_gflops=nan", "rates above 0"},
      {"--threads=-1", "--threads is -1"},
      {"--shape=other:1", "no data layer makes it"},
      {"--model=nett.prototxt", "--model is given twice"},
      {"--weights=none.caffemodel", "none.caffemodel"},
      {"--iteration=3", "did you mean 'iterations'"},
  };
  for (const auto& [flag, message] : cases) {
    const ProcessResult result = Run({flag});
    EXPECT_EQ(result.exit_code, 2) << flag << "\n" << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << flag << "\n" << result.err;
    EXPECT_EQ(result.out, "") << flag;
  }
  EXPECT_EQ(Run({"surplus"}).exit_code, 2);
  EXPECT_EQ(test::RunProcess({Bin("profile")}, temp_.path()).exit_code, 2);
  const ProcessResult missing = test::RunProcess({Bin("profile"), "nett.prototxt"}, temp_.path());
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(Contains(missing.err, "nett.prototxt: there is no such file")) << missing.err;
}

TEST_F(ProfileTool, ATraceThatCannotBeWrittenIsAnErrorOfData) {
  // Checked before the passes, which would take days.
  const ProcessResult result = Run({"--trace=no/such/folder/t.json", "--iterations=1000000000"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_TRUE(Contains(result.err, "no/such/folder")) << result.err;
}

}  // namespace
}  // namespace crema
