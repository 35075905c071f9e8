// Upgrades the first format (all parameters of all types in one message) to the second.
#include <google/protobuf/message.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/upgrade.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct TypeName {
  std::string_view old_type;
  V1LayerParameter::LayerType type;
};
constexpr TypeName kTypes[] = {
    {"accuracy", V1LayerParameter::ACCURACY},
    {"bnll", V1LayerParameter::BNLL},
    {"concat", V1LayerParameter::CONCAT},
    {"conv", V1LayerParameter::CONVOLUTION},
    {"data", V1LayerParameter::DATA},
    {"dropout", V1LayerParameter::DROPOUT},
    {"euclidean_loss", V1LayerParameter::EUCLIDEAN_LOSS},
    {"flatten", V1LayerParameter::FLATTEN},
    {"hdf5_data", V1LayerParameter::HDF5_DATA},
    {"hdf5_output", V1LayerParameter::HDF5_OUTPUT},
    {"im2col", V1LayerParameter::IM2COL},
    {"images", V1LayerParameter::IMAGE_DATA},
    {"infogain_loss", V1LayerParameter::INFOGAIN_LOSS},
    {"innerproduct", V1LayerParameter::INNER_PRODUCT},
    {"lrn", V1LayerParameter::LRN},
    {"multinomial_logistic_loss", V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS},
    {"pool", V1LayerParameter::POOLING},
    {"relu", V1LayerParameter::RELU},
    {"sigmoid", V1LayerParameter::SIGMOID},
    {"softmax", V1LayerParameter::SOFTMAX},
    {"softmax_loss", V1LayerParameter::SOFTMAX_LOSS},
    {"split", V1LayerParameter::SPLIT},
    {"tanh", V1LayerParameter::TANH},
    {"window_data", V1LayerParameter::WINDOW_DATA},
};
constexpr std::string_view kPadding = "padding";

// Destination of a field: `name` in `block`, for layers of `type` (empty: every type).
struct Route {
  std::string_view field;
  std::string_view type;
  const char* block;  // null: the layer itself
  const char* name;
};
constexpr Route kRoutes[] = {
    {"num_output", "conv", "convolution_param", "num_output"},
    {"num_output", "innerproduct", "inner_product_param", "num_output"},
    {"biasterm", "conv", "convolution_param", "bias_term"},
    {"biasterm", "innerproduct", "inner_product_param", "bias_term"},
    {"weight_filler", "conv", "convolution_param", "weight_filler"},
    {"weight_filler", "innerproduct", "inner_product_param", "weight_filler"},
    {"bias_filler", "conv", "convolution_param", "bias_filler"},
    {"bias_filler", "innerproduct", "inner_product_param", "bias_filler"},
    {"pad", "conv", "convolution_param", "pad"},
    {"pad", "pool", "pooling_param", "pad"},
    {"kernelsize", "conv", "convolution_param", "kernel_size"},
    {"kernelsize", "pool", "pooling_param", "kernel_size"},
    {"stride", "conv", "convolution_param", "stride"},
    {"stride", "pool", "pooling_param", "stride"},
    {"group", "conv", "convolution_param", "group"},
    {"pool", "pool", "pooling_param", "pool"},
    {"dropout_ratio", "dropout", "dropout_param", "dropout_ratio"},
    {"local_size", "lrn", "lrn_param", "local_size"},
    {"alpha", "lrn", "lrn_param", "alpha"},
    {"beta", "lrn", "lrn_param", "beta"},
    {"k", "lrn", "lrn_param", "k"},
    {"source", "data", "data_param", "source"},
    {"source", "hdf5_data", "hdf5_data_param", "source"},
    {"source", "images", "image_data_param", "source"},
    {"source", "window_data", "window_data_param", "source"},
    {"source", "infogain_loss", "infogain_loss_param", "source"},
    {"batchsize", "data", "data_param", "batch_size"},
    {"batchsize", "hdf5_data", "hdf5_data_param", "batch_size"},
    {"batchsize", "images", "image_data_param", "batch_size"},
    {"batchsize", "window_data", "window_data_param", "batch_size"},
    {"scale", "", "transform_param", "scale"},
    {"meanfile", "", "transform_param", "mean_file"},
    {"cropsize", "", "transform_param", "crop_size"},
    {"mirror", "", "transform_param", "mirror"},
    {"rand_skip", "data", "data_param", "rand_skip"},
    {"rand_skip", "images", "image_data_param", "rand_skip"},
    {"shuffle_images", "images", "image_data_param", "shuffle"},
    {"new_height", "images", "image_data_param", "new_height"},
    {"new_width", "images", "image_data_param", "new_width"},
    {"concat_dim", "concat", "concat_param", "concat_dim"},
    {"det_fg_threshold", "window_data", "window_data_param", "fg_threshold"},
    {"det_bg_threshold", "window_data", "window_data_param", "bg_threshold"},
    {"det_fg_fraction", "window_data", "window_data_param", "fg_fraction"},
    {"det_context_pad", "window_data", "window_data_param", "context_pad"},
    {"det_crop_mode", "window_data", "window_data_param", "crop_mode"},
    {"hdf5_output_param", "hdf5_output", nullptr, "hdf5_output_param"},
};

// Copies a set, singular field to a field of the same type; appends to a repeated one.
void CopyField(const Message& from, const FieldDescriptor& field, Message* to,
               const FieldDescriptor& target) {
  // new_height and new_width used to be signed.
  const bool lost_sign = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 &&
                         target.cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
  CREMA_CHECK(lost_sign || field.cpp_type() == target.cpp_type());
  const Reflection& in = *from.GetReflection();
  const Reflection& out = *to->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const uint32_t value = in.GetUInt32(from, &field);
      return target.is_repeated() ? out.AddUInt32(to, &target, value)
                                  : out.SetUInt32(to, &target, value);
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return out.SetUInt32(to, &target, static_cast<uint32_t>(in.GetInt32(from, &field)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return out.SetFloat(to, &target, in.GetFloat(from, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return out.SetBool(to, &target, in.GetBool(from, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return out.SetString(to, &target, in.GetString(from, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return out.SetEnumValue(to, &target, in.GetEnumValue(from, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return out.MutableMessage(to, &target)->CopyFrom(in.GetMessage(from, &field));
    default:
      CREMA_CHECK(false);
  }
}

const Route* FindRoute(std::string_view field, std::string_view type) {
  const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& r) {
    return r.field == field && (r.type.empty() || r.type == type);
  });
  return route == std::end(kRoutes) ? nullptr : route;
}

// The net being upgraded, and the problems found.
class V0Upgrade {
 public:
  V0Upgrade(SourceMap* source, std::vector<Problem>* warnings)
      : source_(source), warnings_(warnings) {}

  void Run(NetParameter* net);

 private:
  void CheckNoneIsNew(const NetParameter& net);
  void RemovePadding(NetParameter* net);
  void FoldPadding(const NetParameter& net, int padding, V1LayerParameter* consumer);
  void UpgradeLayer(V1LayerParameter* layer, const std::string& path);
  void MoveField(const V0LayerParameter& old, const FieldDescriptor& field, V1LayerParameter* layer,
                 const std::string& path);
  void DropOtherNetFields(NetParameter* net);

  Problem At(const std::string& path, const std::string& layer, std::string message) const {
    Problem problem{ErrorCode::kInvalidArgument, source_->Locate(path), std::move(message)};
    problem.where.layer = layer;
    return problem;
  }
  void ThrowProblems() {
    if (!problems_.empty()) throw Error(std::move(problems_));
  }

  SourceMap* source_;
  std::vector<Problem>* warnings_;
  std::vector<Problem> problems_;
};

void V0Upgrade::Run(NetParameter* net) {
  CheckNoneIsNew(*net);
  RemovePadding(net);
  ThrowProblems();
  for (int i = 0; i < net->layers_size(); ++i) {
    UpgradeLayer(net->mutable_layers(i), StrCat("layers[", i, "]"));
  }
  DropOtherNetFields(net);
  ThrowProblems();
}

void V0Upgrade::CheckNoneIsNew(const NetParameter& net) {
  for (int i = 0; i < net.layers_size(); ++i) {
    if (net.layers(i).has_layer()) continue;
    problems_.push_back(At(StrCat("layers[", i, "]"), net.layers(i).name(),
                           "this layer is in a newer format than the others (it has no 'layer' "
                           "block inside); write all of them in one format"));
  }
  if (net.layer_size() > 0) {
    problems_.push_back(At("layer[0]", net.layer(0).name(),
                           "'layers' (old format) and 'layer' (new format) are mixed in one net"));
  }
  ThrowProblems();
}

// Removes padding layers; their consumers pad themselves.
void V0Upgrade::RemovePadding(NetParameter* net) {
  constexpr int kNetInput = -1;
  std::map<std::string, int> producers;
  for (const std::string& input : net->input()) producers[input] = kNetInput;
  for (int i = 0; i < net->layers_size(); ++i) {
    V1LayerParameter* layer = net->mutable_layers(i);
    for (const std::string& bottom : layer->bottom()) {
      const auto producer = producers.find(bottom);
      if (producer == producers.end()) {
        problems_.push_back(At(StrCat("layers[", i, "].bottom"), layer->layer().name(),
                               StrCat("bottom '", bottom, "' is made by no earlier layer")));
        continue;
      }
      const int made_by = producer->second;
      if (made_by == kNetInput || net->layers(made_by).layer().type() != kPadding) continue;
      FoldPadding(*net, made_by, layer);
      break;  // it has one bottom, or a problem has been reported
    }
    for (const std::string& top : layer->top()) producers[top] = i;
  }
  int kept = 0;
  for (int i = 0; i < net->layers_size(); ++i) {
    const std::string path = StrCat("layers[", i, "]");
    if (net->layers(i).layer().type() == kPadding) {
      source_->Remove(path);
      continue;
    }
    if (kept != i) {
      net->mutable_layers()->SwapElements(kept, i);
      source_->Move(path, StrCat("layers[", kept, "]"));
    }
    ++kept;
  }
  net->mutable_layers()->DeleteSubrange(kept, net->layers_size() - kept);
}

void V0Upgrade::FoldPadding(const NetParameter& net, int padding, V1LayerParameter* consumer) {
  const V1LayerParameter& pad = net.layers(padding);
  const std::string path = StrCat("layers[", padding, "]");
  const std::string& type = consumer->layer().type();
  if (type != "conv" && type != "pool") {
    problems_.push_back(At(path, pad.layer().name(),
                           StrCat("a padding layer must be read by a conv or pool layer, not by '",
                                  consumer->layer().name(), "' of type '", type, "'")));
  } else if (consumer->bottom_size() != 1 || pad.bottom_size() != 1 || pad.top_size() != 1) {
    problems_.push_back(At(path, pad.layer().name(),
                           StrCat("a padding layer and its reader '", consumer->layer().name(),
                                  "' must have one bottom each, and it one top")));
  } else {
    consumer->mutable_layer()->set_pad(pad.layer().pad());
    consumer->set_bottom(0, pad.bottom(0));
  }
}

void V0Upgrade::UpgradeLayer(V1LayerParameter* layer, const std::string& path) {
  V0LayerParameter old;
  old.Swap(layer->mutable_layer());
  V1LayerParameter upgraded;
  upgraded.mutable_bottom()->Swap(layer->mutable_bottom());
  upgraded.mutable_top()->Swap(layer->mutable_top());
  if (old.has_name()) upgraded.set_name(old.name());
  upgraded.mutable_blobs()->Swap(old.mutable_blobs());
  *upgraded.mutable_blobs_lr() = old.blobs_lr();
  *upgraded.mutable_weight_decay() = old.weight_decay();
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeName& t) { return t.old_type == old.type(); });
  if (type != std::end(kTypes)) {
    upgraded.set_type(type->type);
  } else {
    std::vector<std::string> names;
    for (const TypeName& t : kTypes) names.emplace_back(t.old_type);
    problems_.push_back(At(path + ".layer.type", old.name(),
                           StrCat("unknown layer type '", old.type(), "' of the first format",
                                  DidYouMean(old.type(), names))));
  }
  std::vector<const FieldDescriptor*> set;
  old.GetReflection()->ListFields(old, &set);
  for (const FieldDescriptor* field : set) MoveField(old, *field, &upgraded, path);
  for (const char* field : {"name", "type", "blobs", "blobs_lr", "weight_decay"}) {
    source_->Move(StrCat(path, ".layer.", field), StrCat(path, ".", field));
  }
  source_->Remove(path + ".layer");
  layer->Swap(&upgraded);
}

void V0Upgrade::MoveField(const V0LayerParameter& old, const FieldDescriptor& field,
                          V1LayerParameter* layer, const std::string& path) {
  if (field.name() == "name" || field.name() == "type" || field.is_repeated()) return;
  const Route* route = FindRoute(field.name(), old.type());
  const std::string old_path = StrCat(path, ".layer.", field.name());
  if (route == nullptr) {
    warnings_->push_back(At(old_path, old.name(),
                            StrCat("'", field.name(), "' has no effect on a layer of type '",
                                   old.type(), "' of the first format; it is dropped")));
    return;
  }
  Message* block = layer;
  if (route->block != nullptr) {
    const FieldDescriptor* at = layer->GetDescriptor()->FindFieldByName(route->block);
    CREMA_CHECK(at != nullptr);
    block = layer->GetReflection()->MutableMessage(layer, at);
  }
  const FieldDescriptor* target = block->GetDescriptor()->FindFieldByName(route->name);
  CREMA_CHECK(target != nullptr);
  CopyField(old, field, block, *target);
  std::string new_path = path + ".";
  if (route->block != nullptr) new_path += StrCat(route->block, ".");
  source_->Move(old_path, StrCat(new_path, route->name, target->is_repeated() ? "[0]" : ""));
}

// Like Caffe, keeps name, layers, input, input_dim and force_backward only.
void V0Upgrade::DropOtherNetFields(NetParameter* net) {
  constexpr std::string_view kKept[] = {"name", "layers", "input", "input_dim", "force_backward"};
  std::vector<const FieldDescriptor*> set;
  net->GetReflection()->ListFields(*net, &set);
  for (const FieldDescriptor* field : set) {
    if (std::find(std::begin(kKept), std::end(kKept), field->name()) != std::end(kKept)) continue;
    warnings_->push_back(At(field->name(), "",
                            StrCat("'", field->name(),
                                   "' has no effect in a net of the first "
                                   "format; it is dropped")));
    net->GetReflection()->ClearField(net, field);
  }
}

}  // namespace

void UpgradeV0(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings) {
  const bool is_v0 = std::any_of(net->layers().begin(), net->layers().end(),
                                 [](const V1LayerParameter& layer) { return layer.has_layer(); });
  if (is_v0) V0Upgrade(source, warnings).Run(net);
}

}  // namespace crema
