// Old nets before and after the upgrade.
#include "format/upgrade.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;

// The text without any upgrade.
NetParameter Plain(const std::string& text) {
  NetParameter net;
  std::vector<Problem> problems;
  ParseText(text, "expected", &net, nullptr, &problems);
  EXPECT_TRUE(problems.empty()) << (problems.empty() ? "" : ToString(problems[0]));
  return net;
}

void ExpectUpgrade(const std::string& before, const std::string& after) {
  const NetFile file = ParseNet(before, "n");
  EXPECT_EQ(PrintText(file.net), PrintText(Plain(after)));
  EXPECT_TRUE(file.warnings.empty());
}

std::string UpgradeError(const std::string& text) {
  return ErrorOf([&] { ParseNet(text, "n"); });
}

TEST(UpgradeV1, FieldsMoveAndListsBecomeParam) {
  ExpectUpgrade(
      "name: 'n' force_backward: true state { phase: TRAIN }"
      "layers { name: 'c' type: CONVOLUTION bottom: 'x' top: 'y' blobs_lr: 1 blobs_lr: 2"
      "  weight_decay: 3 param: 'w' param: 'b' blob_share_mode: PERMISSIVE"
      "  convolution_param { num_output: 4 kernel_size: 3 } include { phase: TEST }"
      "  blobs { num: 1 data: 5 } }"
      "layers { name: 'l' type: SOFTMAX_LOSS bottom: 'y' bottom: 'z' top: 'l' loss_weight: 2"
      "  loss_param { ignore_label: 255 } exclude { stage: 's' } }",
      "name: 'n' force_backward: true state { phase: TRAIN }"
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'y'"
      "  param { name: 'w' share_mode: PERMISSIVE lr_mult: 1 decay_mult: 3 }"
      "  param { name: 'b' lr_mult: 2 }"
      "  convolution_param { num_output: 4 kernel_size: 3 } include { phase: TEST }"
      "  blobs { num: 1 data: 5 } }"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'z' top: 'l' loss_weight: 2"
      "  loss_param { ignore_label: 255 } exclude { stage: 's' } }");
}

TEST(UpgradeV1, EveryTypeHasItsName) {
  const auto* types = V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    const std::string old_name = types->value(i)->name();
    const NetFile file = ParseNet("layers { name: 'a' type: " + old_name + " }", "n");
    EXPECT_EQ(file.net.layer(0).type().empty(), old_name == "NONE") << old_name;
  }
  EXPECT_EQ(ParseNet("layers { type: HDF5_OUTPUT }", "n").net.layer(0).type(), "HDF5Output");
}

TEST(UpgradeV1, EveryParameterBlockIsMoved) {
  const auto* fields = V1LayerParameter::descriptor();
  int moved = 0;
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    const bool is_block = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
                          !field->is_repeated() && field->name() != "layer";
    if (!is_block) continue;
    const NetFile file = ParseNet("layers { type: RELU " + field->name() + " { } }", "n");
    EXPECT_EQ(PrintText(file.net.layer(0)), "type: \"ReLU\"\n" + field->name() + " {\n}\n");
    ++moved;
  }
  EXPECT_EQ(moved, 30);
}

TEST(UpgradeV1, DataTransformsMove) {
  for (const auto& [type, block, name] : {std::tuple("DATA", "data_param", "Data"),
                                          {"IMAGE_DATA", "image_data_param", "ImageData"},
                                          {"WINDOW_DATA", "window_data_param", "WindowData"}}) {
    ExpectUpgrade(std::string("layers { name: 'd' type: ") + type + " " + block +
                      " { source: 's' scale: 0.5 mean_file: 'm' crop_size: 3 mirror: true }"
                      " transform_param { scale: 2 force_color: true } }",
                  std::string("layer { name: 'd' type: '") + name + "' " + block +
                      " { source: 's' } transform_param { scale: 0.5 mean_file: 'm' crop_size: 3"
                      " mirror: true force_color: true } }");
  }
}

TEST(UpgradeV1, NewLayersKeepTheirOldDataFields) {
  ExpectUpgrade("layer { type: 'Data' data_param { scale: 2 } }",
                "layer { type: 'Data' data_param { scale: 2 } }");
}

TEST(UpgradeV1, MixedFormatsAreRefused) {
  EXPECT_TRUE(Contains(UpgradeError("layers { type: RELU }\nlayer { type: 'ReLU' }"),
                       "n:2:1: 'layers' (old format) and 'layer' (new format) are mixed"));
}

TEST(UpgradeV1, PositionsFollow) {
  const NetFile file = ParseNet(
      "layers { name: 'd' type: DATA\n data_param { scale: 2 } }\n"
      "layers { name: 'c' type: CONVOLUTION\n blobs_lr: 1\n blobs_lr: 2 }\n",
      "n");
  EXPECT_EQ(file.source.Locate("layer[0].transform_param.scale").line, 2);
  EXPECT_EQ(file.source.Locate("layer[1].param[1].lr_mult").line, 5);
  EXPECT_EQ(file.source.Locate("layer[1].type").line, 3);
}

std::string PythonLayer(const std::string& module, const std::string& text) {
  return "layer { name: 'proposal' type: 'Python' bottom: 'p' bottom: 'd' bottom: 'i' top: 'rois' "
         "python_param { module: '" +
         module + "' layer: 'ProposalLayer' param_str: \"" + text + "\" } }";
}

TEST(UpgradeProposals, ThePythonLayerOfFasterRcnnBecomesProposal) {
  const std::string begin =
      "layer { name: 'proposal' type: 'Proposal' bottom: 'p' bottom: 'd' bottom: 'i' top: 'rois' ";
  for (const auto& [text, field] : {
           std::pair{"'feat_stride': 16", "feat_stride: 16"},
           {"{'feat_stride': 8, \"scales\": [2, 4.5]}", "feat_stride: 8 scale: 2 scale: 4.5"},
           {"'feat_stride': 16 \\n'scales': !!python/tuple [4, 8, 16, 32]",
            "feat_stride: 16 scale: 4 scale: 8 scale: 16 scale: 32"},
       }) {
    std::string quoted;
    for (const char c : std::string(text)) quoted += c == '"' ? "\\\"" : std::string(1, c);
    const NetFile file = ParseNet(PythonLayer("rpn.proposal_layer", quoted), "n");
    EXPECT_EQ(PrintText(file.net), PrintText(Plain(begin + "proposal_param { " + field + " } }")));
    ASSERT_EQ(file.warnings.size(), 1U);
    EXPECT_NE(file.warnings[0].message.find("6000 candidates, 300 regions"), std::string::npos);
  }
}

TEST(UpgradeProposals, OtherPythonLayersStay) {
  const std::string known = PythonLayer("rpn.proposal_layer", "'feat_stride': 16");
  for (const std::string& net : {
           PythonLayer("mine", "'feat_stride': 16"),
           PythonLayer("rpn.proposal_layer", "'feat_stride': 16 \\n'ratios': [1]"),
           PythonLayer("rpn.proposal_layer", "'feat_stride': wide"),
           PythonLayer("rpn.proposal_layer", "16"),
           known.substr(0, known.size() - 1) + "include { phase: TRAIN } }",
           // A net for training.
           known + "layer { name: 'targets' type: 'Python' top: 'labels' python_param { module: "
                   "'rpn.anchor_target_layer' layer: 'AnchorTargetLayer' } }",
       }) {
    ExpectUpgrade(net, net);
  }
}

TEST(UpgradeInputs, InputShapesBecomeOneFirstLayer) {
  ExpectUpgrade(
      "name: 'n' input: 'a' input: 'b' input_shape { dim: 1 dim: 2 } input_shape { dim: 3 }"
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'y' }",
      "name: 'n' layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param {"
      " shape { dim: 1 dim: 2 } shape { dim: 3 } } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'y' }");
}

TEST(UpgradeInputs, FourSizesEach) {
  ExpectUpgrade(
      "input: 'a' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 layer { name: 'r' }"
      "input: 'b' input_dim: 5 input_dim: 6 input_dim: 7 input_dim: 8 layer { name: 's' }",
      "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param {"
      " shape { dim: [1, 2, 3, 4] } shape { dim: [5, 6, 7, 8] } } }"
      "layer { name: 'r' } layer { name: 's' }");
}

TEST(UpgradeInputs, WithoutSizesTheyAreDropped) {
  ExpectUpgrade("input: 'a' layer { name: 'r' }", "layer { name: 'r' }");
}

TEST(UpgradeInputs, SizesMustSuffice) {
  EXPECT_TRUE(Contains(UpgradeError("input: 'a' input: 'b'\ninput_shape { dim: 1 }"),
                       "n:2:1: the net has 2 inputs and 1 'input_shape' instead of 2"));
  EXPECT_TRUE(Contains(UpgradeError("input: 'a'\ninput_dim: 1 input_dim: 1"),
                       "2 'input_dim' instead of 4"));
  const NetFile file = ParseNet("input: 'a' input_shape { dim: 1 } input_shape { dim: 2 }", "n");
  EXPECT_EQ(file.warnings.size(), 1u);
}

TEST(UpgradeInputs, PositionsFollow) {
  const NetFile file = ParseNet(
      "input: 'a'\ninput_shape {\n dim: 1 }\nlayer { name: 'r' }\nlayer { name: 's' }", "n");
  EXPECT_EQ(file.source.Locate("layer[0]").line, 1);
  EXPECT_EQ(file.source.Locate("layer[0].input_param.shape[0].dim[0]").line, 3);
  EXPECT_EQ(file.source.Locate("layer[2].name").line, 5);
}

TEST(UpgradeBatchNorm, ThreeSpecsAreFrozenOthersAreNot) {
  ExpectUpgrade(
      "layer { type: 'BatchNorm' param { name: 'm' lr_mult: 1 } param {} param {} }"
      "layer { type: 'BatchNorm' param { lr_mult: 1 } }"
      "layer { type: 'Scale' param {} param {} param {} }",
      "layer { type: 'BatchNorm' param { name: 'm' lr_mult: 0 decay_mult: 0 }"
      " param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } }"
      "layer { type: 'BatchNorm' param { lr_mult: 1 } }"
      "layer { type: 'Scale' param {} param {} param {} }");
}

TEST(UpgradeV0, FieldsGoWhereTheTypeHasThem) {
  ExpectUpgrade(
      "name: 'n' input: 'x' input_dim: [1, 3, 8, 8]"
      "layers { layer { name: 'c' type: 'conv' num_output: 4 kernelsize: 3 stride: 2 pad: 1 group: "
      "2"
      "  biasterm: false weight_filler { type: 'xavier' } blobs_lr: 1 weight_decay: 2"
      "  blobs { num: 1 data: 7 } } bottom: 'x' top: 'c' }"
      "layers { layer { name: 'p' type: 'pool' pool: AVE kernelsize: 3 stride: 2 }"
      "  bottom: 'c' top: 'p' }"
      "layers { layer { name: 'n' type: 'lrn' local_size: 3 alpha: 2 beta: 3 k: 4 }"
      "  bottom: 'p' top: 'n' }"
      "layers { layer { name: 'i' type: 'innerproduct' num_output: 5 } bottom: 'n' top: 'i' }",
      "name: 'n' layer { name: 'input' type: 'Input' top: 'x' input_param {"
      " shape { dim: [1, 3, 8, 8] } } }"
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c'"
      "  param { lr_mult: 1 decay_mult: 2 } blobs { num: 1 data: 7 }"
      "  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2"
      "  bias_term: false weight_filler { type: 'xavier' } } }"
      "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p'"
      "  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }"
      "layer { name: 'n' type: 'LRN' bottom: 'p' top: 'n'"
      "  lrn_param { local_size: 3 alpha: 2 beta: 3 k: 4 } }"
      "layer { name: 'i' type: 'InnerProduct' bottom: 'n' top: 'i'"
      "  inner_product_param { num_output: 5 } }");
}

TEST(UpgradeV0, DataLayers) {
  ExpectUpgrade(
      "layers { layer { name: 'd' type: 'data' source: 's' batchsize: 3 scale: 2 meanfile: 'm'"
      "  cropsize: 5 mirror: true rand_skip: 6 } top: 'd' }"
      "layers { layer { name: 'w' type: 'window_data' source: 's' batchsize: 3 scale: 2"
      "  det_fg_threshold: 0.1 det_crop_mode: 'square' } top: 'w' }"
      "layers { layer { name: 'i' type: 'images' shuffle_images: true new_height: 7 } top: 'i' }",
      "layer { name: 'd' type: 'Data' top: 'd' data_param { source: 's' batch_size: 3 rand_skip: 6 "
      "}"
      "  transform_param { scale: 2 mean_file: 'm' crop_size: 5 mirror: true } }"
      "layer { name: 'w' type: 'WindowData' top: 'w' transform_param { scale: 2 }"
      "  window_data_param { source: 's' batch_size: 3 fg_threshold: 0.1 crop_mode: 'square' } }"
      "layer { name: 'i' type: 'ImageData' top: 'i' image_data_param { shuffle: true"
      "  new_height: 7 } }");
}

TEST(UpgradeV0, PaddingFoldsIntoItsReader) {
  ExpectUpgrade(
      "input: 'x' layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'x' top: 'p' }"
      "layers { layer { name: 'c' type: 'conv' } bottom: 'p' top: 'c' }",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { pad: 2 } }");
}

TEST(UpgradeV0, WhatCannotBeUpgradedIsRefused) {
  EXPECT_TRUE(Contains(UpgradeError("layers { layer { name: 'c' type: 'convv' } }"),
                       "layer \"c\": unknown layer type 'convv' of the first format (did you mean "
                       "'conv'?)"));
  EXPECT_TRUE(Contains(UpgradeError("layers { layer { type: 'relu' } bottom: 'x' }"),
                       "bottom 'x' is made by no earlier layer"));
  EXPECT_TRUE(
      Contains(UpgradeError("input: 'x' layers { layer { type: 'padding' } bottom: 'x' top: 'p' }"
                            "layers { layer { name: 'r' type: 'relu' } bottom: 'p' }"),
               "must be read by a conv or pool layer, not by 'r'"));
  EXPECT_TRUE(Contains(UpgradeError("layers { layer { type: 'relu' } } layers { type: RELU }"),
                       "newer format than the others"));
}

TEST(UpgradeV0, EveryFieldOnEveryTypeMovesOrIsWarnedOf) {
  const auto* fields = V0LayerParameter::descriptor();
  int moved = 0;
  for (const char* type : {"conv", "pool", "innerproduct", "data", "hdf5_data", "images", "lrn",
                           "window_data", "infogain_loss", "dropout", "concat", "hdf5_output"}) {
    for (int i = 0; i < fields->field_count(); ++i) {
      const std::string name = fields->field(i)->name();
      if (fields->field(i)->is_repeated() || name == "name" || name == "type") continue;
      std::string value = ": 1";
      if (fields->field(i)->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        value = ": 's'";
      }
      if (name == "weight_filler" || name == "bias_filler") value = " { }";
      if (name == "hdf5_output_param") value = " { file_name: 'f' }";
      const NetFile file = ParseNet(
          std::string("layers { layer { type: '") + type + "' " + name + value + " } }", "n");
      const LayerParameter& layer = file.net.layer(0);
      std::vector<const google::protobuf::FieldDescriptor*> set;
      layer.GetReflection()->ListFields(layer, &set);
      EXPECT_EQ(set.size() + file.warnings.size(), 2u) << type << " " << name;  // and the type
      moved += file.warnings.empty() ? 1 : 0;
    }
  }
  EXPECT_EQ(moved, 42 + 4 * 12);  // four go with every type
}

TEST(UpgradeV0, DroppedFieldsAreWarnedAbout) {
  const NetFile file = ParseNet(
      "state { level: 1 }\nlayers { layer { name: 'r' type: 'relu'\n alpha: 2 } top: 'r' }", "n");
  ASSERT_EQ(file.warnings.size(), 2u);
  EXPECT_EQ(file.warnings[0].where.line, 3);
  EXPECT_EQ(file.warnings[0].where.layer, "r");
  EXPECT_TRUE(Contains(file.warnings[1].message, "'state' has no effect"));
}

}  // namespace
}  // namespace crema
