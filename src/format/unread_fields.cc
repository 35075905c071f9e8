#include "format/unread_fields.h"

#include <span>
#include <string>

#include "core/strings.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct UnreadField {
  const char* name;
  const char* instead;  // what decides in its place
};

constexpr const char* kPrecision = "--precision chooses number formats";
constexpr const char* kLossScale = "the solver's loss_scale does this";
constexpr const char* kChoice = "the planner chooses implementations; see --implementation";
constexpr const char* kNodes = "a run uses the GPUs of one machine, --gpu";

constexpr UnreadField kOfNets[] = {
    {"debug_info", "profile and replay look into a net"},
    {"default_forward_type", kPrecision},
    {"default_backward_type", kPrecision},
    {"default_forward_math", kPrecision},
    {"default_backward_math", kPrecision},
    {"default_cudnn_math_override", kPrecision},
    {"default_conv_algos_override", kChoice},
    {"global_grad_scale", kLossScale},
    {"global_grad_scale_adaptive", kLossScale},
    {"reduce_buckets", "gradients are summed as they become complete"},
    {"compile_net_state", "the planner fuses BatchNorm by itself"},
    {"eltwise_mem_sharing", "the planner shares memory by itself"},
    {"bn_stats_batch_size", "statistics are of the whole batch"},
    {"multinode", kNodes},
};

constexpr UnreadField kOfLayers[] = {
    {"forward_type", kPrecision},
    {"backward_type", kPrecision},
    {"forward_math", kPrecision},
    {"backward_math", kPrecision},
    {"cudnn_math_override", kPrecision},
    {"debug", "profile and replay look into a net"},
    {"multinode", kNodes},
};

constexpr UnreadField kOfConvolutions[] = {
    {"force_nd_im2col", kChoice},
    {"conv_algorithm", kChoice},
    {"conv_algos_override", kChoice},
    {"cudnn_convolution_algo_seeker", kChoice},
};

constexpr UnreadField kOfConcat[] = {{"per_fla_fuse", kChoice}};

void Find(const Message& message, std::span<const UnreadField> fields, const std::string& path,
          const std::string& layer, const SourceMap& source, std::vector<Problem>* warnings) {
  for (const UnreadField& unread : fields) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(unread.name);
    CREMA_CHECK(field != nullptr);
    if (!IsSet(message, *field)) continue;
    Where where = source.Locate(StrCat(path, unread.name));
    where.layer = layer;
    warnings->push_back({ErrorCode::kInvalidArgument, std::move(where),
                         StrCat("'", unread.name, "' has no effect: ", unread.instead)});
  }
}

}  // namespace

bool IsSet(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(message, &field) > 0;
  if (!reflection.HasField(message, &field)) return false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) != field.default_value_bool();
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field) != field.default_value_int32();
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, &field) != field.default_value_float();
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field) != field.default_value_string();
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(message, &field)->number() != field.default_value_enum()->number();
    default:
      return true;
  }
}

std::vector<Problem> FindUnreadFields(const NetParameter& net, const SourceMap& source) {
  std::vector<Problem> warnings;
  Find(net, kOfNets, "", "", source, &warnings);
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    const std::string path = StrCat("layer[", i, "].");
    Find(layer, kOfLayers, path, layer.name(), source, &warnings);
    if (layer.has_convolution_param()) {
      Find(layer.convolution_param(), kOfConvolutions, path + "convolution_param.", layer.name(),
           source, &warnings);
    }
    if (layer.has_concat_param()) {
      Find(layer.concat_param(), kOfConcat, path + "concat_param.", layer.name(), source,
           &warnings);
    }
  }
  return warnings;
}

}  // namespace crema
