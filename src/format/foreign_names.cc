#include "format/foreign_names.h"

#include <cctype>

#include "core/strings.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;

// A name of another tool. It holds for each message that has the field.
struct Synonym {
  std::string_view name;
  std::string_view field;
};
constexpr Synonym kSynonyms[] = {
    {"learning_rate", "base_lr"},
    {"lr", "base_lr"},
    {"initial_lr", "base_lr"},
    {"epochs", "max_epoch"},
    {"num_epochs", "max_epoch"},
    {"max_epochs", "max_epoch"},
    {"iterations", "max_iter"},
    {"num_iterations", "max_iter"},
    {"max_iterations", "max_iter"},
    {"steps", "max_iter"},
    {"max_steps", "max_iter"},
    {"lr_scheduler", "lr_policy"},
    {"scheduler", "lr_policy"},
    {"lr_schedule", "lr_policy"},
    {"beta1", "momentum"},
    {"beta_1", "momentum"},
    {"beta2", "momentum2"},
    {"beta_2", "momentum2"},
    {"epsilon", "delta"},
    {"eps", "delta"},
    {"epsilon", "eps"},
    {"decay", "weight_decay"},
    {"l2", "weight_decay"},
    {"seed", "random_seed"},
    {"grad_clip", "clip_gradients"},
    {"max_grad_norm", "clip_gradients"},
    {"units", "num_output"},
    {"out_features", "num_output"},
    {"out_channels", "num_output"},
    {"filters", "num_output"},
    {"num_filters", "num_output"},
    {"nOutputs", "num_output"},
    {"kernel", "kernel_size"},
    {"ksize", "kernel_size"},
    {"filter_size", "kernel_size"},
    {"pool_size", "kernel_size"},
    {"strides", "stride"},
    {"padding", "pad"},
    {"groups", "group"},
    {"bias", "bias_term"},
    {"use_bias", "bias_term"},
    {"kernel_initializer", "weight_filler"},
    {"bias_initializer", "bias_filler"},
    {"p", "dropout_ratio"},
    {"rate", "dropout_ratio"},
    {"alpha", "negative_slope"},
    {"flip", "mirror"},
    {"horizontal_flip", "mirror"},
    {"crop", "crop_size"},
    {"random_crop", "crop_size"},
    {"rescale", "scale"},
    {"path", "source"},
    {"root", "source"},
    {"input", "bottom"},
    {"inputs", "bottom"},
    {"output", "top"},
    {"outputs", "top"},
};

// A name with a sentence of its own. `block` is the message that it stands in.
struct Explained {
  std::string_view block;
  std::string_view name;
  std::string_view hint;
};
constexpr std::string_view kNumOutput =
    "; it is num_output here, a field of inner_product_param or convolution_param";
constexpr Explained kExplained[] = {
    {"SolverParameter", "optimizer", "; write type: \"Adam\", \"SGD\" or another solver type"},
    {"SolverParameter", "betas", "; write momentum: 0.9 and momentum2: 0.999"},
    {"SolverParameter", "batch_size", " (it belongs in 'data_param' of the data layer)"},
    {"SolverParameter", "loss", "; a loss is a layer of the net, such as SoftmaxWithLoss"},
    {"LayerParameter", "activation", "; add a layer after this one, for example of type \"ReLU\""},
    {"LayerParameter", "scale", " (it belongs in 'transform_param')"},
    {"LayerParameter", "batch_size", " (it belongs in 'data_param' of a data layer)"},
    {"LayerParameter", "units", kNumOutput},
    {"LayerParameter", "out_features", kNumOutput},
    {"LayerParameter", "out_channels", kNumOutput},
    {"LayerParameter", "filters", kNumOutput},
    {"InnerProductParameter", "activation",
     "; add a layer after this one, for example of type \"ReLU\""},
    {"ConvolutionParameter", "activation",
     "; add a layer after this one, for example of type \"ReLU\""},
    {"InnerProductParameter", "in_features", "; it follows from the bottom: leave it out"},
    {"ConvolutionParameter", "in_channels", "; it follows from the bottom: leave it out"},
    {"BatchNormParameter", "momentum",
     "; here it is moving_average_fraction (0.9 for a momentum of 0.1 in PyTorch)"},
    {"MaxoutParameter", "minout",
     "; negate the bottom and the top with Power layers, power_param { scale: -1 }"},
    {"TransformationParameter", "mean", "; write mean_value: 128, or mean_file"},
};

constexpr std::string_view kMaxPooling = "Pooling with pooling_param { pool: MAX }";
constexpr std::string_view kMeanPooling = "Pooling with pooling_param { pool: AVE }";
constexpr std::string_view kGlobalPooling =
    "Pooling with pooling_param { pool: AVE global_pooling: true }";

// Names in lower case without '_'.
struct ForeignLayer {
  std::string_view name;
  std::string_view here;
};
constexpr ForeignLayer kLayers[] = {
    {"conv", "Convolution"},
    {"conv1d", "Convolution"},
    {"conv2d", "Convolution"},
    {"conv3d", "Convolution"},
    {"depthwiseconv2d", "Convolution with group equal to the channels"},
    {"convtranspose2d", "Deconvolution"},
    {"conv2dtranspose", "Deconvolution"},
    {"linear", "InnerProduct"},
    {"dense", "InnerProduct"},
    {"fc", "InnerProduct"},
    {"fullyconnected", "InnerProduct"},
    {"gemm", "InnerProduct"},
    {"leakyrelu", "ReLU with relu_param { negative_slope: 0.01 }"},
    {"maxpool", kMaxPooling},
    {"maxpool2d", kMaxPooling},
    {"maxpooling2d", kMaxPooling},
    {"maxpooling", kMaxPooling},
    {"avgpool", kMeanPooling},
    {"avgpool2d", kMeanPooling},
    {"averagepool", kMeanPooling},
    {"averagepooling2d", kMeanPooling},
    {"adaptiveavgpool2d", kGlobalPooling},
    {"globalaveragepool", kGlobalPooling},
    {"globalaveragepooling2d", kGlobalPooling},
    {"crossentropy", "SoftmaxWithLoss"},
    {"crossentropyloss", "SoftmaxWithLoss"},
    {"categoricalcrossentropy", "SoftmaxWithLoss"},
    {"sparsecategoricalcrossentropy", "SoftmaxWithLoss"},
    {"nllloss", "SoftmaxWithLoss in place of LogSoftmax and NLLLoss (or MultinomialLogisticLoss)"},
    {"mseloss", "EuclideanLoss"},
    {"mse", "EuclideanLoss"},
    {"l2loss", "EuclideanLoss"},
    {"meansquarederror", "EuclideanLoss"},
    {"bceloss", "SigmoidCrossEntropyLoss"},
    {"bcewithlogitsloss", "SigmoidCrossEntropyLoss"},
    {"binarycrossentropy", "SigmoidCrossEntropyLoss"},
    {"add", "Eltwise with eltwise_param { operation: SUM }"},
    {"mul", "Eltwise with eltwise_param { operation: PROD }"},
    {"multiply", "Eltwise with eltwise_param { operation: PROD }"},
    {"concatenate", "Concat"},
    {"cat", "Concat"},
    {"embedding", "Embed"},
};

// Joins the words of a name: "MaxPool_2D" becomes "maxpool2d".
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

}  // namespace

std::string FieldOfForeignName(std::string_view name, const Descriptor& type) {
  for (const Synonym& row : kSynonyms) {
    std::string field(row.field);
    if (row.name == name && type.FindFieldByName(field) != nullptr) return field;
  }
  return "";
}

std::string ForeignFieldHint(std::string_view name, const Descriptor& type) {
  for (const Explained& row : kExplained) {
    if (row.name == name && row.block == type.name()) return std::string(row.hint);
  }
  const std::string field = FieldOfForeignName(name, type);
  return field.empty() ? "" : StrCat(" (did you mean '", field, "'?)");
}

std::string ForeignLayerHint(std::string_view type) {
  const std::string plain = Plain(type);
  for (const ForeignLayer& row : kLayers) {
    if (row.name == plain) return StrCat("; write ", row.here);
  }
  return "";
}

}  // namespace crema
