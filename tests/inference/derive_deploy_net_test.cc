#include "inference/derive_deploy_net.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/lmdb.h"
#include "inference/deploy_net.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

DerivedNet Derive(const std::string& text, const std::map<std::string, Shape>& shapes = {}) {
  const NetFile net = ParseNet(text, "train.prototxt");
  return DeriveDeployNet(net, InferenceState(net.net), shapes, test::TestRegistry());
}

std::string DeriveError(const std::string& text, const std::map<std::string, Shape>& shapes = {}) {
  try {
    Derive(text, shapes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The layers as "type name bottoms -> tops", joined by "; ".
std::string Layers(const DerivedNet& derived) {
  std::vector<std::string> lines;
  for (const LayerParameter& layer : derived.net.net.layer()) {
    std::string line = StrCat(layer.type(), " ", layer.name());
    for (const std::string& bottom : layer.bottom()) line += " " + bottom;
    line += " ->";
    for (const std::string& top : layer.top()) line += " " + top;
    lines.push_back(line);
  }
  return Join(lines, "; ");
}

std::vector<int64_t> FirstShape(const DerivedNet& derived) {
  const BlobShape& shape = derived.net.net.layer(0).input_param().shape(0);
  return {shape.dim().begin(), shape.dim().end()};
}

std::string Notes(const DerivedNet& derived) { return Join(derived.notes, "\n"); }

constexpr const char* kData = R"(
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  data_param { source: "nowhere" batch_size: 64 } transform_param { crop_size: 28 mirror: true } }
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TEST }
  data_param { source: "nowhere" batch_size: 100 }
  transform_param { crop_size: 28 scale: 0.5 mean_value: 10 } })";

constexpr const char* kScores = R"(
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" param { lr_mult: 2 }
  inner_product_param { num_output: 10 } })";

constexpr const char* kLoss = R"(
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";

std::string Text(const std::string& rest) { return StrCat(kData, kScores, rest); }

TEST(DeriveDeployNet, SoftmaxReplacesTheLoss) {
  const DerivedNet derived = Derive(Text(StrCat(kLoss, R"(
layer { name: "drop" type: "Dropout" bottom: "ip" top: "ip" }
layer { name: "acc" type: "Accuracy" bottom: "ip" bottom: "label" top: "acc"
  include { phase: TEST } })")));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Softmax prob ip -> prob");
  EXPECT_EQ(FirstShape(derived), (std::vector<int64_t>{1, 3, 28, 28}));
  EXPECT_EQ(derived.net.net.layer(1).param_size(), 0);
  EXPECT_EQ(derived.preprocessing.scale, 0.5F);
  EXPECT_EQ(derived.preprocessing.mean, (std::vector<float>{10, 10, 10}));
  EXPECT_NE(Notes(derived).find("training crops images"), std::string::npos) << Notes(derived);
}

TEST(DeriveDeployNet, SoftmaxReplacesALossOfHardExamples) {
  const DerivedNet derived = Derive(Text(R"(
layer { name: "loss" type: "SoftmaxWithLossOHEM" bottom: "ip" bottom: "label" top: "loss" top: "p"
  top: "costs" softmax_param { axis: -1 } })"));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; Softmax prob ip -> prob");
  EXPECT_EQ(derived.net.net.layer(2).softmax_param().axis(), -1);
}

TEST(DeriveDeployNet, KeepsTheAxisOfTheClassesAndDropoutBeforeIt) {
  const DerivedNet derived = Derive(Text(R"(
layer { name: "drop" type: "Dropout" bottom: "ip" top: "ip" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  softmax_param { axis: -1 } })"));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Dropout drop ip -> ip; Softmax prob ip -> prob");
  EXPECT_EQ(derived.net.net.layer(3).softmax_param().axis(), -1);
}

TEST(DeriveDeployNet, LabelBranchesAndSilenceGo) {
  const DerivedNet derived = Derive(Text(R"(
layer { name: "flat" type: "Flatten" bottom: "label" top: "flat" }
layer { name: "quiet" type: "Silence" bottom: "flat" include { phase: TEST } }
layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "ip" bottom: "flat" top: "loss" })"));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Sigmoid prob ip -> prob");
}

TEST(DeriveDeployNet, RegressionLeavesThePrediction) {
  constexpr const char* kExpected = "Input data -> data; InnerProduct ip data -> ip";
  EXPECT_EQ(
      Layers(Derive(Text(
          R"(layer { name: "l" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "l" })"))),
      kExpected);
  EXPECT_EQ(
      Layers(Derive(Text(
          R"(layer { name: "l" type: "EuclideanLoss" bottom: "label" bottom: "ip" top: "l" })"))),
      kExpected);
}

TEST(DeriveDeployNet, AuxiliaryLossesGoWithTheirLayers) {
  const DerivedNet derived = Derive(Text(StrCat(kLoss, R"(
layer { name: "aux" type: "InnerProduct" bottom: "data" top: "aux"
  inner_product_param { num_output: 10 } }
layer { name: "aux_loss" type: "SoftmaxWithLoss" bottom: "aux" bottom: "label" top: "aux_loss"
  loss_weight: 0.3 include { phase: TRAIN } }
layer { name: "aux_acc" type: "Accuracy" bottom: "aux" bottom: "label" top: "aux_acc" })")));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Softmax prob ip -> prob");
  EXPECT_NE(Notes(derived).find("\"aux_loss\" (SoftmaxWithLoss) is auxiliary"), std::string::npos)
      << Notes(derived);
}

TEST(DeriveDeployNet, SeveralTasksGiveSeveralOutputs) {
  const DerivedNet derived = Derive(StrCat(R"(
layer { name: "d" type: "HDF5Data" top: "data" top: "label" top: "age"
  hdf5_data_param { source: "nowhere" batch_size: 7 } })",
                                           kScores, kLoss, R"(
layer { name: "years" type: "InnerProduct" bottom: "data" top: "years"
  inner_product_param { num_output: 1 } }
layer { name: "l2" type: "EuclideanLoss" bottom: "years" bottom: "age" top: "l2" loss_weight: 0.1 }
layer { name: "argmax" type: "ArgMax" bottom: "ip" top: "best" include { phase: TEST } })"),
                                    {{"data", {1, 5}}});
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; Softmax prob ip -> prob; "
            "InnerProduct years data -> years; ArgMax argmax ip -> best");
  EXPECT_EQ(FirstShape(derived), (std::vector<int64_t>{1, 5}));
}

TEST(DeriveDeployNet, ASoftmaxOfTheTestPhaseIsNotMadeTwice) {
  const DerivedNet derived = Derive(Text(R"(
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  include { phase: TRAIN } }
layer { name: "p" type: "Softmax" bottom: "ip" top: "p" include { phase: TEST } }
layer { name: "acc" type: "Accuracy" bottom: "p" bottom: "label" top: "acc"
  include { phase: TEST } })"));
  EXPECT_EQ(Layers(derived), "Input data -> data; InnerProduct ip data -> ip; Softmax p ip -> p");
}

TEST(DeriveDeployNet, DataLayersOfPhaseTrainWillDo) {
  std::string text = Text(kLoss);
  text = text.substr(0, text.find("layer { name: \"mnist\" type: \"Data\" top: \"data\" top: "
                                  "\"label\" include { phase: TEST }")) +
         kScores + kLoss;
  EXPECT_EQ(Layers(Derive(text)),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Softmax prob ip -> prob");
}

TEST(DeriveDeployNet, SharedParametersKeepTheirNames) {
  const DerivedNet derived = Derive(Text(StrCat(kLoss, R"(
layer { name: "twin" type: "InnerProduct" bottom: "data" top: "twin"
  param { name: "w" lr_mult: 1 } param { name: "b" lr_mult: 2 }
  inner_product_param { num_output: 10 } })")));
  const LayerParameter& twin = *std::ranges::find(derived.net.net.layer(), "twin",
                                                  [](const auto& layer) { return layer.name(); });
  ASSERT_EQ(twin.param_size(), 2);
  EXPECT_EQ(twin.param(0).name(), "w");
  EXPECT_FALSE(twin.param(0).has_lr_mult());
}

TEST(DeriveDeployNet, BytesBecomeFloatsOfTheInput) {
  const DerivedNet derived = Derive(StrCat(R"(
layer { name: "d" type: "Data" top: "bytes" top: "label" pipeline_param { output: U8 }
  data_param { source: "nowhere" batch_size: 4 } transform_param { crop_size: 8 } }
layer { name: "floats" type: "PixelsToFloat" bottom: "bytes" top: "data"
  transform_param { scale: 0.25 } })",
                                           kScores, kLoss));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; InnerProduct ip data -> ip; "
            "Softmax prob ip -> prob");
  EXPECT_EQ(FirstShape(derived), (std::vector<int64_t>{1, 3, 8, 8}));
  EXPECT_EQ(derived.preprocessing.scale, 0.25F);
}

TEST(DeriveDeployNet, DetectionOutputReplacesMultiBoxLoss) {
  constexpr const char* kBoxes = R"(
layer { name: "prior" type: "PriorBox" bottom: "ip" bottom: "data" top: "prior" }
layer { name: "loss" type: "MultiBoxLoss" bottom: "ip" bottom: "conf" bottom: "prior"
  bottom: "label" top: "loss" include { phase: TRAIN } })";
  const std::string text = Text(StrCat(R"(
layer { name: "conf" type: "InnerProduct" bottom: "data" top: "conf"
  inner_product_param { num_output: 2 } })",
                                       kBoxes));
  const std::string begin =
      "Input data -> data; InnerProduct ip data -> ip; "
      "InnerProduct conf data -> conf; PriorBox prior ip data -> prior";
  const DerivedNet raw = Derive(text);
  EXPECT_EQ(Layers(raw), begin);
  EXPECT_NE(Notes(raw).find("raw boxes and scores, which --tail can decode"), std::string::npos);
  EXPECT_EQ(Layers(Derive(text + R"(
layer { name: "out" type: "DetectionOutput" bottom: "ip" bottom: "conf" bottom: "prior" top: "out"
  include { phase: TEST } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "out" bottom: "label" top: "eval"
  include { phase: TEST } })")),
            begin + "; DetectionOutput out ip conf prior -> out");
}

TEST(DeriveDeployNet, OneBranchOfSeveral) {
  const DerivedNet derived = Derive(R"(
layer { name: "pairs" type: "Data" top: "pair" top: "label"
  data_param { source: "nowhere" batch_size: 4 } transform_param { crop_size: 8 scale: 2 } }
layer { name: "cut" type: "Slice" bottom: "pair" top: "data" top: "other"
  slice_param { slice_dim: 1 slice_point: 1 } }
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" }
  inner_product_param { num_output: 2 } }
layer { name: "b" type: "InnerProduct" bottom: "other" top: "b" param { name: "w" }
  inner_product_param { num_output: 2 } }
layer { name: "loss" type: "ContrastiveLoss" bottom: "a" bottom: "b" bottom: "label" top: "loss" })");
  EXPECT_EQ(Layers(derived), "Input data -> data; InnerProduct a data -> a");
  EXPECT_EQ(FirstShape(derived), (std::vector<int64_t>{1, 1, 8, 8}));
  EXPECT_EQ(derived.preprocessing.scale, 2);
}

TEST(DeriveDeployNet, OtherWaysOfResizingAreNoted) {
  const auto notes = [](const std::string& mode) {
    return Notes(Derive(StrCat(R"(layer { name: "d" type: "AnnotatedData" top: "data" top: "label"
  data_param { source: "nowhere" batch_size: 4 } annotated_data_param { }
  transform_param { resize_param { height: 8 width: 8 resize_mode: )",
                               mode, " } } }", kScores, kLoss)));
  };
  EXPECT_EQ(notes("WARP"), "");
  EXPECT_EQ(
      notes("FIT_SMALL_SIZE"),
      "training keeps the aspect of images; the deploy net resizes whole images to 8x8; --fit "
      "and --resize change this");
}

TEST(DeriveDeployNet, CropsAndLetterboxesOfTrainingAreKept) {
  const auto of = [](const std::string& data) {
    return Derive(StrCat("layer { name: 'd' top: 'data' top: 'label' ", data, " }", kScores, kLoss))
        .preprocessing;
  };
  const Preprocessing cropped = of(R"(type: "ImageData"
  image_data_param { source: "nowhere" batch_size: 4 new_height: 40 new_width: 50 }
  transform_param { crop_size: 32 })");
  EXPECT_EQ(cropped.fit, ImageFit::kCrop);
  EXPECT_EQ(cropped.resize_height, 40);
  EXPECT_EQ(cropped.resize_width, 50);
  const Preprocessing boxed = of(R"(type: "AnnotatedData"
  data_param { source: "nowhere" batch_size: 4 } annotated_data_param { }
  transform_param { resize_param { height: 8 width: 8 resize_mode: FIT_LARGE_SIZE_AND_PAD
    pad_value: 9.6 interp_mode: AREA } })");
  EXPECT_EQ(boxed.fit, ImageFit::kLetterbox);
  EXPECT_EQ(boxed.pad, 10);
  EXPECT_EQ(boxed.interpolation, Interpolation::kArea);
  // Bars that continue the image cannot be stored.
  EXPECT_EQ(of(R"(type: "AnnotatedData"
  data_param { source: "nowhere" batch_size: 4 } annotated_data_param { }
  transform_param { resize_param { height: 8 width: 8 resize_mode: FIT_LARGE_SIZE_AND_PAD
    pad_mode: MIRRORED } })")
                .fit,
            ImageFit::kStretch);
}

TEST(DeriveDeployNet, TheFirstSampleGivesTheSizeBeforeTheCrop) {
  const test::TempDir temp;
  {
    LmdbWriter writer(temp.File("set"));
    Datum datum;
    datum.set_channels(3);
    datum.set_height(12);
    datum.set_width(10);
    datum.set_data(std::string(360, 'x'));
    writer.Put("0", datum.SerializeAsString());
    writer.Close();
  }
  const DerivedNet derived = Derive(
      StrCat("layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '",
             temp.File("set"), "' backend: LMDB batch_size: 4 } transform_param { crop_size: 8 } }",
             kScores, kLoss));
  EXPECT_EQ(derived.preprocessing.fit, ImageFit::kCrop);
  EXPECT_EQ(derived.preprocessing.resize_height, 12);
  EXPECT_EQ(derived.preprocessing.resize_width, 10);
  EXPECT_EQ(Notes(derived),
            "images are resized to 12x10, the size of the first sample of the data set, and "
            "cropped; --fit and --resize change this");
}

TEST(DeriveDeployNet, MeanFilesAreRead) {
  const test::TempDir temp;
  BlobProto mean;
  for (const int64_t dim : {1, 3, 2, 2}) mean.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 12; ++i) mean.add_data(static_cast<float>(i / 4));
  temp.Write("mean.binaryproto", mean.SerializeAsString());
  const DerivedNet derived =
      Derive(StrCat(R"(layer { name: "d" type: "Data" top: "data" top: "label"
  data_param { source: "nowhere" batch_size: 4 }
  transform_param { crop_size: 8 mean_file: ")",
                    temp.File("mean.binaryproto"), "\" } }", kScores, kLoss));
  EXPECT_EQ(derived.preprocessing.mean, (std::vector<float>{0, 1, 2}));
}

TEST(DeriveDeployNet, MistakesAreExplained) {
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(DeriveError(kData), "has no loss and no metric, so its predictions are unknown");
  expect(DeriveError(Text(R"(layer { name: "sum" type: "Reduction" bottom: "ip" top: "sum"
      loss_weight: 1 })")),
         "layer \"sum\": no rule says what replaces a loss of type Reduction");
  expect(DeriveError(Text(kLoss), {{"dat", {1, 3, 8, 8}}}),
         "a shape is given for 'dat', but the inputs of the derived net are data");
  const std::string python = StrCat(R"(layer { name: "py" type: "Python" top: "data" top: "label"
      python_param { module: "m" layer: "L" } })",
                                    kScores, kLoss);
  expect(DeriveError(python), "layer \"py\": a Python layer makes the data");
  EXPECT_EQ(DeriveError(python, {{"data", {1, 3, 8, 8}}}), "");
  expect(
      DeriveError(StrCat(R"(layer { name: "d" type: "Data" top: "data" top: "label"
      data_param { source: "nowhere" batch_size: 4 } })",
                         kScores, kLoss)),
      "layer \"d\": the data set does not exist, and its layer does not give the size of a sample: "
      "give the shape of data, for example --shape=data=1x3x32x32");
  expect(
      DeriveError(StrCat(kData, R"(layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      include { phase: TRAIN } inner_product_param { num_output: 2 } })",
                         kLoss)),
      "reads 'ip', which no layer of phase TEST before it makes");
}

TEST(DeriveDeployNet, TwoImageInputsKeepNoPreprocessing) {
  const DerivedNet derived = Derive(StrCat(kData, R"(
layer { name: "depth" type: "Data" top: "depth" data_param { source: "nowhere" batch_size: 4 }
  transform_param { crop_size: 28 } }
layer { name: "both" type: "Concat" bottom: "data" bottom: "depth" top: "both" }
layer { name: "ip" type: "InnerProduct" bottom: "both" top: "ip"
  inner_product_param { num_output: 2 } })",
                                           kLoss));
  EXPECT_EQ(Layers(derived),
            "Input data -> data; Input depth -> depth; "
            "Concat both data depth -> both; InnerProduct ip both -> ip; "
            "Softmax prob ip -> prob");
  EXPECT_TRUE(derived.preprocessing.mean.empty());
  EXPECT_NE(Notes(derived).find("has 2 inputs"), std::string::npos) << Notes(derived);
}

TEST(IsTrainingNet, OnlyIfTheTestPhaseNeedsADataSet) {
  const auto is = [](const std::string& text) {
    const NetFile net = ParseNet(text, "net.prototxt");
    return IsTrainingNet(net.net, InferenceState(net.net));
  };
  EXPECT_TRUE(is(Text(kLoss)));
  // One text for both: the phase TEST has an input.
  EXPECT_FALSE(is(StrCat(R"(
layer { name: "d" type: "Data" top: "data" include { phase: TRAIN } }
layer { name: "i" type: "Input" top: "data" include { phase: TEST } })",
                         kScores)));
}

}  // namespace
}  // namespace crema
