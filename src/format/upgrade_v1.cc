// Upgrades the second format to the present one.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/upgrade.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;

struct V1Type {
  V1LayerParameter::LayerType old_type;
  const char* type;
};
constexpr V1Type kV1Types[] = {
    {V1LayerParameter::NONE, ""},
    {V1LayerParameter::ABSVAL, "AbsVal"},
    {V1LayerParameter::ACCURACY, "Accuracy"},
    {V1LayerParameter::ARGMAX, "ArgMax"},
    {V1LayerParameter::BNLL, "BNLL"},
    {V1LayerParameter::CONCAT, "Concat"},
    {V1LayerParameter::CONTRASTIVE_LOSS, "ContrastiveLoss"},
    {V1LayerParameter::CONVOLUTION, "Convolution"},
    {V1LayerParameter::DATA, "Data"},
    {V1LayerParameter::DECONVOLUTION, "Deconvolution"},
    {V1LayerParameter::DROPOUT, "Dropout"},
    {V1LayerParameter::DUMMY_DATA, "DummyData"},
    {V1LayerParameter::EUCLIDEAN_LOSS, "EuclideanLoss"},
    {V1LayerParameter::ELTWISE, "Eltwise"},
    {V1LayerParameter::EXP, "Exp"},
    {V1LayerParameter::FLATTEN, "Flatten"},
    {V1LayerParameter::HDF5_DATA, "HDF5Data"},
    {V1LayerParameter::HDF5_OUTPUT, "HDF5Output"},
    {V1LayerParameter::HINGE_LOSS, "HingeLoss"},
    {V1LayerParameter::IM2COL, "Im2col"},
    {V1LayerParameter::IMAGE_DATA, "ImageData"},
    {V1LayerParameter::INFOGAIN_LOSS, "InfogainLoss"},
    {V1LayerParameter::INNER_PRODUCT, "InnerProduct"},
    {V1LayerParameter::LRN, "LRN"},
    {V1LayerParameter::MEMORY_DATA, "MemoryData"},
    {V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
    {V1LayerParameter::MVN, "MVN"},
    {V1LayerParameter::POOLING, "Pooling"},
    {V1LayerParameter::POWER, "Power"},
    {V1LayerParameter::RELU, "ReLU"},
    {V1LayerParameter::SIGMOID, "Sigmoid"},
    {V1LayerParameter::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
    {V1LayerParameter::SILENCE, "Silence"},
    {V1LayerParameter::SOFTMAX, "Softmax"},
    {V1LayerParameter::SOFTMAX_LOSS, "SoftmaxWithLoss"},
    {V1LayerParameter::SPLIT, "Split"},
    {V1LayerParameter::SLICE, "Slice"},
    {V1LayerParameter::TANH, "TanH"},
    {V1LayerParameter::WINDOW_DATA, "WindowData"},
    {V1LayerParameter::THRESHOLD, "Threshold"},
};

std::string NewType(V1LayerParameter::LayerType old_type) {
  const auto* entry = std::find_if(std::begin(kV1Types), std::end(kV1Types),
                                   [&](const V1Type& type) { return type.old_type == old_type; });
  CREMA_CHECK(entry != std::end(kV1Types));
  return entry->type;
}

// Moves the parameter blocks by name: only the field numbers differ.
void MoveParameterBlocks(V1LayerParameter* from, LayerParameter* to) {
  std::vector<const FieldDescriptor*> set;
  from->GetReflection()->ListFields(*from, &set);
  for (const FieldDescriptor* field : set) {
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const FieldDescriptor* target = to->GetDescriptor()->FindFieldByName(field->name());
    CREMA_CHECK(target != nullptr && target->message_type() == field->message_type());
    google::protobuf::Message* block = to->GetReflection()->MutableMessage(to, target);
    block->GetReflection()->Swap(block, from->GetReflection()->MutableMessage(from, field));
  }
}

// Merges four lists, indexed by parameter, into one list of ParamSpec.
void MoveParamSpecs(const V1LayerParameter& from, const std::string& path, LayerParameter* to,
                    SourceMap* source) {
  const int count = std::max({from.param_size(), from.blob_share_mode_size(), from.blobs_lr_size(),
                              from.weight_decay_size()});
  for (int i = 0; i < count; ++i) {
    ParamSpec* spec = to->add_param();
    const auto move = [&](const char* old_field, const char* new_field) {
      source->Move(StrCat(path, ".", old_field, "[", i, "]"),
                   StrCat(path, ".param[", i, "].", new_field));
    };
    if (i < from.param_size()) {
      spec->set_name(from.param(i));
      move("param", "name");
    }
    if (i < from.blob_share_mode_size()) {
      spec->set_share_mode(from.blob_share_mode(i) == V1LayerParameter::PERMISSIVE
                               ? ParamSpec::PERMISSIVE
                               : ParamSpec::STRICT);
      move("blob_share_mode", "share_mode");
    }
    if (i < from.blobs_lr_size()) {
      spec->set_lr_mult(from.blobs_lr(i));
      move("blobs_lr", "lr_mult");
    }
    if (i < from.weight_decay_size()) {
      spec->set_decay_mult(from.weight_decay(i));
      move("weight_decay", "decay_mult");
    }
  }
}

void UpgradeLayer(V1LayerParameter* from, const std::string& path, LayerParameter* to,
                  SourceMap* source) {
  if (from->has_name()) to->set_name(from->name());
  if (from->has_type()) to->set_type(NewType(from->type()));
  to->mutable_bottom()->Swap(from->mutable_bottom());
  to->mutable_top()->Swap(from->mutable_top());
  to->mutable_include()->Swap(from->mutable_include());
  to->mutable_exclude()->Swap(from->mutable_exclude());
  to->mutable_loss_weight()->Swap(from->mutable_loss_weight());
  to->mutable_blobs()->Swap(from->mutable_blobs());
  MoveParamSpecs(*from, path, to, source);
  MoveParameterBlocks(from, to);
}

// Moves four fields from a data layer's own parameters to transform_param.
template <typename DataParam>
void MoveTransform(const std::string& path, const char* block, DataParam* from,
                   V1LayerParameter* layer, SourceMap* source) {
  const auto move = [&](const char* field) {
    source->Move(StrCat(path, ".", block, ".", field), StrCat(path, ".transform_param.", field));
  };
  if (from->has_scale()) {
    layer->mutable_transform_param()->set_scale(from->scale());
    from->clear_scale();
    move("scale");
  }
  if (from->has_mean_file()) {
    layer->mutable_transform_param()->set_mean_file(from->mean_file());
    from->clear_mean_file();
    move("mean_file");
  }
  if (from->has_crop_size()) {
    layer->mutable_transform_param()->set_crop_size(from->crop_size());
    from->clear_crop_size();
    move("crop_size");
  }
  if (from->has_mirror()) {
    layer->mutable_transform_param()->set_mirror(from->mirror());
    from->clear_mirror();
    move("mirror");
  }
}

}  // namespace

std::string TypeNamedByV1(const std::string& name) {
  V1LayerParameter::LayerType type = V1LayerParameter::NONE;
  return V1LayerParameter::LayerType_Parse(name, &type) ? NewType(type) : "";
}

void UpgradeDataTransforms(NetParameter* net, SourceMap* source) {
  for (int i = 0; i < net->layers_size(); ++i) {
    V1LayerParameter* layer = net->mutable_layers(i);
    const std::string path = StrCat("layers[", i, "]");
    if (layer->type() == V1LayerParameter::DATA && layer->has_data_param()) {
      MoveTransform(path, "data_param", layer->mutable_data_param(), layer, source);
    } else if (layer->type() == V1LayerParameter::IMAGE_DATA && layer->has_image_data_param()) {
      MoveTransform(path, "image_data_param", layer->mutable_image_data_param(), layer, source);
    } else if (layer->type() == V1LayerParameter::WINDOW_DATA && layer->has_window_data_param()) {
      MoveTransform(path, "window_data_param", layer->mutable_window_data_param(), layer, source);
    }
  }
}

void UpgradeV1(NetParameter* net, SourceMap* source) {
  if (net->layers_size() == 0) return;
  if (net->layer_size() > 0) {
    Fail(
        ErrorCode::kInvalidArgument,
        "'layers' (old format) and 'layer' (new format) are mixed in one net; write all of them as "
        "'layer'",
        source->Locate("layer[0]"));
  }
  for (int i = 0; i < net->layers_size(); ++i) {
    UpgradeLayer(net->mutable_layers(i), StrCat("layers[", i, "]"), net->add_layer(), source);
  }
  source->Move("layers", "layer");
  net->clear_layers();
}

}  // namespace crema
