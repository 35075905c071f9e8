// deploy run, bench, verify and export.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/npy.h"
#include "format/tensor_files.h"
#include "quantization/quantize.h"
#include "support/process.h"
#include "tools/deploy_nets.h"

namespace crema {
namespace {

using test::Bin;
using test::ProcessResult;
using test::RunProcess;

class DeployRun : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteDeployNets(temp_);
    WriteArray("x.npy", {5, 3, 4, 4}, DType::kF32);
  }

  void WriteArray(const std::string& name, const Shape& shape, DType dtype) const {
    Tensor tensor(shape, dtype);
    for (size_t i = 0; i < static_cast<size_t>(shape.count()); ++i) {
      if (dtype == DType::kF32) tensor.view().data<float>()[i] = static_cast<float>(i % 7);
      if (dtype == DType::kF64) tensor.view().data<double>()[i] = static_cast<double>(i % 7);
    }
    temp_.Write(name, FormatNpy(tensor.view()));
  }

  ProcessResult Deploy(std::vector<std::string> arguments,
                       const std::string& model = "means.prototxt") const {
    std::vector<std::string> command = {Bin("deploy")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back("--model=" + model);
    if (model.ends_with(".prototxt")) {
      command.push_back("--weights=" + model.substr(0, model.find('.')) + ".caffemodel");
    }
    return RunProcess(command, temp_.path());
  }

  void ExpectMistake(std::vector<std::string> arguments, const std::string& text,
                     const std::string& model = "means.prototxt", int code = 2) const {
    const ProcessResult result = Deploy(std::move(arguments), model);
    EXPECT_EQ(result.exit_code, code) << text << "\n" << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  test::TempDir temp_;
};

TEST_F(DeployRun, ArraysInAndOut) {
  const ProcessResult result = Deploy({"run", "--input=data=x.npy", "--output=y.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("prob: 5x3x1x1, min ")) << result.out;
  const Tensor whole = ParseNpy(temp_.Read("y.npy"), "y.npy");
  EXPECT_EQ(whole.shape(), (Shape{5, 3, 1, 1}));
  // A single input needs no name; the last batch is smaller.
  ASSERT_EQ(Deploy({"run", "--input=x.npy", "--batch=2", "--output=z.npy"}).exit_code, 0);
  const std::vector<float> parts = test::ValuesOf(ParseNpy(temp_.Read("z.npy"), "z.npy").view());
  const std::vector<float> expected = test::ValuesOf(whole.view());
  ASSERT_EQ(parts.size(), expected.size());
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(parts[i], expected[i], 1e-6);
  const std::string json = Deploy({"run", "--input=x.npy", "--json"}).out;
  EXPECT_TRUE(json.starts_with("{\"prob\": {\"shape\": [5, 3, 1, 1], \"min\": ")) << json;
}

TEST_F(DeployRun, LayersOfTheWeightsThatTheNetLacksAreOneLine) {
  std::string trained = test::kMeans;
  for (int i = 0; i < 12; ++i) {
    trained +=
        StrCat("layer { name: \"more", i, "\" type: \"InnerProduct\" bottom: \"prob\" top: \"m", i,
               "\" inner_product_param { num_output: 1 } }\n");
  }
  const auto plan = test::PlanText(trained, TEST);
  temp_.Write("fewer.prototxt", test::kMeans);
  WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), temp_.File("fewer.caffemodel"));
  const ProcessResult result = Deploy({"run", "--input=x.npy", "-q"}, "fewer.prototxt");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_TRUE(result.err.ends_with(
      "fewer.caffemodel: did not use 12 layers (more0, more1, more10, more11, more2 and 7 more)\n"))
      << result.err;
}

TEST_F(DeployRun, OtherKindsOfFiles) {
#if defined(CREMA_HAVE_ZIP) && defined(CREMA_HAVE_HDF5)
  const Tensor x = ParseNpy(temp_.Read("x.npy"), "x.npy");
  WriteArrays(temp_.File("x.npz"),
              std::vector<NamedArrayView>{{"data", x.view()}, {"label", x.view()}});
  ASSERT_EQ(Deploy({"run", "--input=x.npz", "--output=y.h5"}).exit_code, 0);
  ASSERT_EQ(Deploy({"run", "--input=data=x.npy", "--output=y.npz"}).exit_code, 0);
  const std::vector<NamedArray> h5 = ReadArrays(temp_.File("y.h5"));
  const std::vector<NamedArray> npz = ReadArrays(temp_.File("y.npz"));
  ASSERT_EQ(h5.size(), 1U);
  EXPECT_EQ(h5[0].name, "prob");
  EXPECT_EQ(test::ValuesOf(h5[0].value.view()), test::ValuesOf(npz[0].value.view()));
#else
  GTEST_SKIP() << "this build has no minizip or no HDF5";
#endif
}

TEST_F(DeployRun, InputsAreChecked) {
  WriteArray("f64.npy", {1, 3, 4, 4}, DType::kF64);
  WriteArray("one.npy", {3, 4, 4}, DType::kF32);
  WriteArray("wide.npy", {1, 3, 5, 4}, DType::kF32);
  ExpectMistake({"run"}, "--input is required");
  ExpectMistake({"run", "--input=f64.npy"}, ".astype(numpy.float32), or give --cast");
  EXPECT_EQ(Deploy({"run", "--input=f64.npy", "--cast"}).exit_code, 0);
  ExpectMistake({"run", "--input=one.npy"}, "x[numpy.newaxis]");
  ExpectMistake({"run", "--input=dat=x.npy"}, "did you mean 'data'?");
  ExpectMistake({"run", "--input=x.npy", "--input=data=x.npy"}, "is given twice");
  ExpectMistake({"run", "--input=x.npy,x.npy"}, "is given twice");
  ExpectMistake({"run", "--input=x.npy", "--output=y.txt"}, ".npy, .npz, .h5");
  ExpectMistake({"run", "--input=x.npy", "--batch=0"}, "--batch: '0'");
  ExpectMistake({"run", "--input=x.npy", "more"}, "unexpected argument");
  ExpectMistake({"run", "img8.jpg"}, "pictures go to classify, detect or segment");
  temp_.Write("x.npy", "nothing");
  ExpectMistake({"run", "--input=x.npy"}, "is no whole .npy file", "means.prototxt", 3);
}

TEST_F(DeployRun, Bench) {
  const ProcessResult result = Deploy(
      {"bench", "--json", "--threads=1,2", "--batches=1,3", "--instances=2", "--seconds=0.01"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 4);
  EXPECT_TRUE(result.out.starts_with("{\"threads\": 1, \"batch\": 1, \"instances\": 2, \"runs\": "))
      << result.out;
  for (const char* key : {"p50_ms", "p90_ms", "p99_ms", "samples_per_second"}) {
    EXPECT_NE(result.out.find(key), std::string::npos);
  }
  const ProcessResult table = Deploy({"bench", "--input=x.npy", "--seconds=0.01", "--threads=1"});
  EXPECT_NE(table.out.find("p99 (ms)"), std::string::npos) << table.out << table.err;
  EXPECT_NE(table.out.find("      1      5         1"), std::string::npos) << table.out;
  ExpectMistake({"bench", "--batches=0"}, "--batches: '0'");
  ExpectMistake({"bench", "--batches=1;2"}, "--batches: '1;2'");
  ExpectMistake({"bench", "--input=x.npy", "--batches=2"}, "--input gives its own");
  ExpectMistake({"bench", "--seconds=-1"}, "--seconds is -1");
}

TEST_F(DeployRun, ExportedModelsNeedNothingElse) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  temp_.Write("labels.txt", "blue\ngreen\nred\n");
  const ProcessResult made = Deploy(
      {"export", "--scale=0.01", "--mean=1,2,3", "--labels=labels.txt", "--rgb", "-o", "m.crema"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(made.out.starts_with("m.crema: means, to classify, ")) << made.out;
  temp_.Write("x.ppm", test::Stripes(9, 5, "rrg"));
  const ProcessResult from_net = Deploy({"classify", "--json", "--scale=0.01", "--mean=1,2,3",
                                         "--labels=labels.txt", "--rgb", "x.ppm"});
  const ProcessResult from_file = Deploy({"classify", "--json", "x.ppm"}, "m.crema");
  EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
  EXPECT_EQ(from_file.out, from_net.out);
  // Flags override the file.
  EXPECT_EQ(
      Deploy({"classify", "--json", "--norgb", "x.ppm"}, "m.crema").out,
      Deploy({"classify", "--json", "--scale=0.01", "--mean=1,2,3", "--labels=labels.txt", "x.ppm"})
          .out);
  EXPECT_EQ(Deploy({"verify"}, "m.crema").exit_code, 0);
  const ProcessResult segment = Deploy({"export", "-o", "s.crema"}, "colours.prototxt");
  EXPECT_TRUE(segment.out.starts_with("s.crema: colours, to segment, ")) << segment.out;
}

TEST_F(DeployRun, ExportExplainsMistakes) {
  ASSERT_EQ(Deploy({"export", "-o", "m.crema"}).exit_code, 0);
  temp_.Write("labels.txt", "one\n");
  ExpectMistake({"export"}, "--output is required");
  ExpectMistake({"export", "-o", "m.bin"}, "must end in .crema");
  ExpectMistake({"export", "-o", "n.crema"}, "was exported already", "m.crema");
  ExpectMistake({"export", "-o", "n.crema", "--task=clasify"}, "did you mean 'classify'?");
  ExpectMistake({"export", "-o", "n.crema", "--labels=labels.txt"}, "has 1 labels");
  ExpectMistake({"export", "-o", "n.crema", "--mean=1,2"}, "--mean has 2 numbers");
  ExpectMistake({"export", "-o", "n.crema", "--precision=int8"}, "int8", "means.prototxt", 2);
  ExpectMistake({"classify", "--weights=means.caffemodel", "x.ppm"}, "was exported with one",
                "m.crema");
  temp_.Write("cut.crema", temp_.Read("m.crema").substr(0, 1000));
  ExpectMistake({"classify", "x.ppm"}, "cut.crema", "cut.crema", 3);
}

TEST_F(DeployRun, ExportForBytesCalibrates) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  temp_.Write("a.ppm", test::Stripes(9, 5, "rkg"));
  temp_.Write("b.ppm", test::Stripes(7, 3, "bgk"));
  temp_.Write("list.txt", "a.ppm\nb.ppm\n");
  temp_.Write("empty.txt", "\n");
  temp_.Write("missing.txt", "a.ppm\nc.ppm\n");
  const std::vector<std::string> base = {"export", "--scale=0.01", "-o", "m.crema"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  const std::string int8 = "--precision=int8";
  const ProcessResult made = Deploy(with({int8, "--calibrate=list.txt"}));
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("1 of 1 layers with products compute in int8"), std::string::npos)
      << made.out;
  EXPECT_EQ(Deploy({"classify", "--top=1", "a.ppm", "b.ppm"}, "m.crema").exit_code, 0);
  // The default rule of QuantizeOptions is a share of the values: half of these are 0.
  EXPECT_EQ(QuantizeOptions().rule, RangeRule::kPercentile);
  ExpectMistake(with({int8, "--calibrate=list.txt", "--percentile=50"}), "no layer can compute");
  ExpectMistake(with({int8}), "needs --calibrate=LIST");
  ExpectMistake(with({"--calibrate=list.txt"}), "is for --precision=int8");
  ExpectMistake(with({"--precision=auto"}), "needs --calibrate=LIST");
  ExpectMistake(with({"--precision=auto", "--calibrate=list.txt", "--most_error=-1"}),
                "must be 0 or more");
  ExpectMistake(with({"--most_error=1"}), "is for --precision=auto");
  ExpectMistake(with({int8, "--calibrate=empty.txt"}), "names no images");
  ExpectMistake(with({int8, "--calibrate=missing.txt"}), "c.ppm");
  ExpectMistake(with({int8, "--calibrate=list.txt", "--range=most"}), "most");
  ExpectMistake(with({int8, "--calibrate=list.txt", "--keep_float=maen"}), "maen");
}

// Which one is the fastest depends on the machine; that it is near does not.
TEST_F(DeployRun, ExportTakesTheFastestPrecisionThatIsNear) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  temp_.Write("a.ppm", test::Stripes(9, 5, "rkg"));
  temp_.Write("list.txt", "a.ppm\n");
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::vector<std::string> base = {"export",  "--scale=0.01",     "-o",
                                         "m.crema", "--precision=auto", "--calibrate=list.txt"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--json"}, {"--json", "--most_error=0", "--agreement=1"}}) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    const ProcessResult made = Deploy(all);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (const char* precision : {"FP32", "BF16", "INT8"}) {
      EXPECT_EQ(count(made.out, StrCat("\"precision\": \"", precision, "\"")), 1) << made.out;
    }
    EXPECT_EQ(count(made.out, "\"chosen\": true"), 1) << made.out;
    const size_t chosen = made.out.find("\"chosen\": true");
    const size_t line =
        made.out.rfind('\n', chosen) == made.out.npos ? 0 : made.out.rfind('\n', chosen);
    EXPECT_NE(made.out.substr(line, chosen - line).find("\"near\": true"), std::string::npos)
        << made.out;
    EXPECT_EQ(Deploy({"classify", "--top=1", "a.ppm"}, "m.crema").exit_code, 0);
  }
  // What cannot be rounded is left out.
  std::vector<std::string> rounded = base;
  rounded.emplace_back("--percentile=50");
  const ProcessResult made = Deploy(rounded);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("INT8 was left out: "), std::string::npos) << made.out;
  std::vector<std::string> onnx = base;
  onnx[3] = "m.onnx";
  ExpectMistake(onnx, "an ONNX file is run by others");
}

TEST_F(DeployRun, VerifyAgainstARecording) {
#if !defined(CREMA_HAVE_ZIP) && !defined(CREMA_HAVE_HDF5)
  GTEST_SKIP() << "this build has no file of several arrays";
#endif
#ifdef CREMA_HAVE_ZIP
  const std::string file = "r.npz";
#else
  const std::string file = "r.h5";
#endif
  const std::string flag = "--recording=" + file;
  ASSERT_EQ(Deploy({"verify", flag, "--record", "--samples=3"}).exit_code, 0);
  const ProcessResult same = Deploy({"verify", flag});
  EXPECT_EQ(same.exit_code, 0) << same.err << same.out;
  EXPECT_TRUE(same.out.starts_with("prob ")) << same.out;
  std::vector<NamedArray> arrays = ReadArrays(temp_.File(file));
  std::vector<NamedArrayView> views;
  for (NamedArray& array : arrays) {
    if (array.name == "prob") array.value.view().data<float>()[4] += 0.01F;
    views.push_back({array.name, array.value.view()});
  }
  WriteArrays(temp_.File(file), views);
  const ProcessResult other = Deploy({"verify", flag});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.out.find("OUT OF TOLERANCE"), std::string::npos) << other.out;
  EXPECT_EQ(Deploy({"verify", flag, "--atol=0.02"}).exit_code, 0);
  WriteArrays(temp_.File(file), std::span(views).first(1));
  ExpectMistake({"verify", flag}, "has no array", "means.prototxt", 3);
}

TEST_F(DeployRun, VerifyAgainstAnotherModel) {
  ASSERT_EQ(Deploy({"export", "-o", "m.crema"}).exit_code, 0);
  const ProcessResult same = Deploy({"verify", "--against=m.crema"});
  EXPECT_EQ(same.exit_code, 0) << same.err << same.out;
  EXPECT_NE(same.out.find("top-1 agreement 8 of 8"), std::string::npos) << same.out;
  EXPECT_NE(same.out.find("mean "), std::string::npos) << "blobs within are compared: " << same.out;
  // The same net with the filters of green and red swapped.
  NetParameter weights = ReadCaffemodel(temp_.File("means.caffemodel"));
  const auto layer = std::ranges::find(*weights.mutable_layer(), "mean", &LayerParameter::name);
  ASSERT_NE(layer, weights.mutable_layer()->end());
  BlobProto* filter = layer->mutable_blobs(0);
  for (int i = 0; i < 48; ++i) filter->mutable_data()->SwapElements(48 + i, 96 + i);
  WriteCaffemodel(weights, temp_.File("other.caffemodel"));
  const ProcessResult other = Deploy({"verify", "--json", "--against=means.prototxt",
                                      "--against_weights=other.caffemodel", "--samples=20"});
  EXPECT_EQ(other.exit_code, 1) << other.out;
  EXPECT_NE(other.out.find("{\"blob\": \"mean\", \"layer\": \"mean\", \"max_difference\": "),
            std::string::npos)
      << other.out;
  EXPECT_NE(other.out.find("\"of\": 20, \"fits\": false}"), std::string::npos) << other.out;
  EXPECT_EQ(Deploy({"verify", "--against=means.prototxt", "--against_weights=other.caffemodel",
                    "--agreement=0"})
                .exit_code,
            0);
  ExpectMistake({"verify"}, "say with what to compare");
  ExpectMistake({"verify", "--record"}, "say with what to compare");
  ExpectMistake({"verify", "--recording=a.npz", "--against=m.crema"}, "give one");
  ExpectMistake({"verify", "--against=m.crema", "--against_precision=BF16"},
                "belong to a prototxt");
  ExpectMistake({"verify", "--against=m.crema", "--agreement=2"}, "--agreement must be");
}

}  // namespace
}  // namespace crema
