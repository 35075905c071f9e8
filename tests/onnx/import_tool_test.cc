// `crema import m.onnx -o DIR`, `deploy --model=m.onnx` and `deploy export`, as a user runs them.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/machine_limits.h"
#include "format/caffemodel.h"
#include "format/prototxt.h"
#include "format/tensor_files.h"
#include "model_builder.h"
#include "support/process.h"

namespace crema {
namespace {

using test::ModelBuilder;
using test::ProcessResult;
using test::TempDir;

class ImportOnnxTool : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelBuilder builder;
    builder.Input("x", {-1, 2}).Output("y");
    builder.Floats("w", {2, 1}, {1, 10});
    builder.Node("MatMul", {"x", "w"}, {"y"});
    builder.Write(temp_);
  }
  ProcessResult Run(std::vector<std::string> arguments, const std::string& command = "import") {
    arguments.insert(arguments.begin(), test::Bin(command));
    return test::RunProcess(arguments, temp_.path());
  }
  void ExpectRefusal(const std::vector<std::string>& arguments, const std::string& text,
                     int exit_code) {
    const size_t before = temp_.FileCount();
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(temp_.FileCount(), before);
  }

  TempDir temp_;
};

TEST_F(ImportOnnxTool, WritesNetAndWeights) {
  const ProcessResult result = Run({"model.onnx", "-o", "out"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const NetFile net = ReadNet(temp_.File("out/deploy.prototxt"));
  EXPECT_EQ(net.net.layer_size(), 2);
  EXPECT_EQ(net.net.layer(1).blobs_size(), 0);
  const NetParameter weights = ReadCaffemodel(temp_.File("out/weights.caffemodel"));
  EXPECT_EQ(weights.layer(1).blobs(0).data(1), 10);
}

TEST_F(ImportOnnxTool, WritesNoWeightsOfANetWithoutParameters) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}).Output("y");
  builder.Node("Relu", {"x"}, {"y"});
  builder.Write(temp_);
  EXPECT_EQ(Run({"model.onnx", "-o", "out"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("out/weights.caffemodel")));
  const ProcessResult result =
      Run({"bench", "--model=out/deploy.prototxt", "--seconds=0.1", "--threads=1"}, "deploy");
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(ImportOnnxTool, OverwritesOnlyByForce) {
  ASSERT_EQ(Run({"model.onnx", "-o", "out"}).exit_code, 0);
  ExpectRefusal({"model.onnx", "-o", "out"}, "give --force", 2);
  EXPECT_EQ(Run({"model.onnx", "-o", "out", "--force"}).exit_code, 0);
  // The weights of the old model fit no more.
  ModelBuilder builder;
  builder.Input("x", {1, 2}).Output("y");
  builder.Node("Relu", {"x"}, {"y"});
  builder.Write(temp_);
  EXPECT_EQ(Run({"model.onnx", "-o", "out", "--force"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("out/weights.caffemodel")));
}

TEST_F(ImportOnnxTool, LeavesNothingAfterFailures) {
  ExpectRefusal({"none.onnx", "-o", "out"}, "none.onnx", 2);
  const std::string bytes = temp_.Read("model.onnx");
  temp_.Write("cut.onnx", bytes.substr(0, bytes.size() / 2));
  ExpectRefusal({"cut.onnx", "-o", "out"}, "cut.onnx", 3);
  ExpectRefusal({"model.onnx", "-o", "out", "--shape=z=1x2"}, "no input 'z'", 2);
  ExpectRefusal({"model.onnx", "-o", "out", "--shape=x=1y2"}, "--shape", 2);
  ExpectRefusal({"model.onnx", "-o", "out", "--shape=x=1x2,x=2x2"}, "gives 'x' twice", 2);
  ExpectRefusal({"model.onnx", "-o", "out", "--shape=x"}, "such as data=1x3x224x224", 2);
  ExpectRefusal({"model.onnx", "-o", "model.onnx"}, "is a file; -o takes a folder", 2);
  ExpectRefusal({"model.onnx"}, "-o is required", 2);
  ExpectRefusal({"model.onnx", "-o", "-"}, "not the standard output", 2);
  ExpectRefusal({"model.onnx", "model.onnx", "-o", "out"}, "name one file", 2);
}

TEST_F(ImportOnnxTool, GivesShapes) {
  ASSERT_EQ(Run({"model.onnx", "-o", "out", "--shape=x=5x2"}).exit_code, 0);
  const NetFile net = ReadNet(temp_.File("out/deploy.prototxt"));
  EXPECT_EQ(net.net.layer(0).input_param().shape(0).dim(0), 5);
}

TEST_F(ImportOnnxTool, ExportsToFilesOnly) {
  const ProcessResult result =
      Run({"export", "--model=model.onnx", "--format=onnx", "-o", "-"}, "deploy");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("not the standard output"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(temp_.File("-")));
}

TEST_F(ImportOnnxTool, WritesDialects) {
  ModelBuilder builder;
  builder.Input("x", {1, 2, 4, 4}).Output("y");
  builder.Floats("w", {2, 2, 1, 1}, {1, 2, 3, 4});
  builder.Node("Conv", {"x", "w"}, {"c"});
  builder.Node("HardSwish", {"c"}, {"h"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"h"}, {"y"}), "perm", {0, 2, 3, 1});
  builder.Write(temp_);
  ExpectRefusal({"model.onnx", "-o", "out", "--dialect=caffe"},
                "layer \"n_y\": becomes a layer Permute: Caffe 1.0 has no layer type 'Permute'", 2);
  ExpectRefusal({"model.onnx", "-o", "out", "--dialect=ncnn"}, "is not caffe or ssd", 2);
  const ProcessResult result = Run({"model.onnx", "-o", "out", "--dialect=ssd"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const NetFile net = ReadNet(temp_.File("out/deploy.prototxt"));
  EXPECT_EQ(net.net.layer(net.net.layer_size() - 1).type(), "Permute");
  EXPECT_EQ(ReadCaffemodel(temp_.File("out/weights.caffemodel")).layer(1).blobs(0).data(3), 4);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp_.File("out")), {}), 2);
}

// The number of no running process.
TEST_F(ImportOnnxTool, RemovesFilesOfKilledCommands) {
  const std::string host = HostName();
  std::filesystem::create_directory(temp_.File("out"));
  const std::string suffix = ".tmp." + host + ".999999999-0123456789abcdef";
  temp_.Write("out/weights.caffemodel" + suffix, "cut");
  temp_.Write("e.onnx" + suffix, "cut");
  EXPECT_EQ(Run({"model.onnx", "-o", "out"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("out/weights.caffemodel" + suffix)));
  EXPECT_EQ(Run({"export", "--model=model.onnx", "-o", "e.onnx"}, "deploy").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("e.onnx" + suffix)));
}

TEST_F(ImportOnnxTool, DeploysDirectly) {
  const ProcessResult result =
      Run({"bench", "--model=model.onnx", "--seconds=0.1", "--threads=1"}, "deploy");
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// Writes x / (size of its first axis) as n.onnx.
void WriteMeanShares(const TempDir& folder) {
  ModelBuilder builder;
  builder.Input("x", {-1, 2}).Output("y");
  builder.Ints("zero", {}, {0});
  builder.Node("Shape", {"x"}, {"s"});
  builder.Node("Gather", {"s", "zero"}, {"n"});
  ModelBuilder::SetInt(builder.Node("Cast", {"n"}, {"f"}), "to", onnx::TensorProto::FLOAT);
  builder.Node("Div", {"x", "f"}, {"y"});
  folder.Write("n.onnx", builder.Bytes());
}

TEST_F(ImportOnnxTool, RunsForTheSizesOfArrays) {
  WriteMeanShares(temp_);
  const std::vector<float> values = {4, 8, 12, 16, 20, 24, 28, 32};
  const NamedArrayView x{"x", ConstTensorView(values.data(), {4, 2}, DType::kF32)};
  WriteArrays(temp_.File("x.npy"), {{x}});
  WriteArrays(temp_.File("x.npz"), {{x}});
  for (const char* input : {"x.npy", "x=x.npy", "x.npz", "x=x.npz"}) {
    const ProcessResult result =
        Run({"run", "--model=n.onnx", std::string("--input=") + input, "--output=y.npy"}, "deploy");
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Tensor y = std::move(ReadArrays(temp_.File("y.npy"))[0].value);
    EXPECT_EQ(y.view().span<float>()[0], 1) << input;
    EXPECT_EQ(y.view().span<float>()[7], 8) << input;
  }
  const std::vector<std::string> run = {"run", "--input=x.npy", "--output=z.npy"};
  const auto refuses = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    more.push_back("--model=" + model);
    const ProcessResult result = Run(more, "deploy");
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_NE(refuses("n.onnx", {"--shape=x=2x2"}).find("--shape=x=4x2"), std::string::npos);
  EXPECT_NE(refuses("n.onnx", {"--batch=2"}).find("cannot be taken apart"), std::string::npos);
  // The imported net refuses them too.
  ASSERT_EQ(Run({"n.onnx", "-o", "out"}).exit_code, 0);
  EXPECT_NE(refuses("out/deploy.prototxt", {}).find("--shape=x=4x2"), std::string::npos);
}

// Two inputs of three rows: numbers, and the second for `type`.
std::string NetOf(const std::string& type, const std::string& second) {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 } } }"
         "layer { name: 'i' type: 'Input' top: 'i' input_param { shape { " +
         second + " } } }layer { name: 'y' type: '" + type + "' bottom: 'x' bottom: 'i' top: 'y' }";
}

// Random numbers are no indices.
TEST_F(ImportOnnxTool, ExportsAreCheckedWithIndices) {
  temp_.Write("net.prototxt", NetOf("Gather", "dim: 4"));
  const ProcessResult result = Run({"export", "--model=net.prototxt", "-o", "g.onnx"}, "deploy");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("not checked"), std::string::npos) << result.out;
  const ProcessResult bench =
      Run({"bench", "--model=g.onnx", "--seconds=0.01", "--threads=1"}, "deploy");
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  const ProcessResult verify = Run({"verify", "--model=g.onnx", "--against=g.onnx"}, "deploy");
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
}

// A run tells how many items there are.
TEST_F(ImportOnnxTool, ExportsOfChosenItemsAreChecked) {
  temp_.Write("net.prototxt", NetOf("Filter", "dim: 3"));
  const ProcessResult result =
      Run({"export", "--model=net.prototxt", "-o", "f.onnx", "--check=import"}, "deploy");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("not checked"), std::string::npos) << result.out;
}

TEST_F(ImportOnnxTool, ExportsThatCannotBeReadBackSaySo) {
  temp_.Write("net.prototxt",
              "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: 5 "
              "dim: 6 } } }"
              "layer { name: 'y' type: 'Pooling' bottom: 'x' top: 'y' top: 'positions'"
              "        pooling_param { kernel_size: 2 stride: 2 } }");
  const std::vector<std::string> command = {"export", "--model=net.prototxt", "-o", "f.onnx"};
  const ProcessResult result = Run(command, "deploy");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("not checked, since Crema cannot read it back: node"),
            std::string::npos)
      << result.out;
  std::filesystem::remove(temp_.File("f.onnx"));
  std::vector<std::string> asked = command;
  asked.emplace_back("--check=import");
  EXPECT_NE(Run(asked, "deploy").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(temp_.File("f.onnx")));
}

}  // namespace
}  // namespace crema
