#include "format/stock_caffe.h"

#include <algorithm>
#include <iterator>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kTypes[] = {"AbsVal",
                                       "Accuracy",
                                       "ArgMax",
                                       "BNLL",
                                       "BatchNorm",
                                       "BatchReindex",
                                       "Bias",
                                       "Concat",
                                       "ContrastiveLoss",
                                       "Convolution",
                                       "Crop",
                                       "Data",
                                       "Deconvolution",
                                       "Dropout",
                                       "DummyData",
                                       "ELU",
                                       "Eltwise",
                                       "Embed",
                                       "EuclideanLoss",
                                       "Exp",
                                       "Filter",
                                       "Flatten",
                                       "HDF5Data",
                                       "HDF5Output",
                                       "HingeLoss",
                                       "Im2col",
                                       "ImageData",
                                       "InfogainLoss",
                                       "InnerProduct",
                                       "Input",
                                       "LRN",
                                       "LSTM",
                                       "LSTMUnit",
                                       "Log",
                                       "MVN",
                                       "MemoryData",
                                       "MultinomialLogisticLoss",
                                       "PReLU",
                                       "Parameter",
                                       "Pooling",
                                       "Power",
                                       "Python",
                                       "RNN",
                                       "ReLU",
                                       "Reduction",
                                       "Reshape",
                                       "SPP",
                                       "Scale",
                                       "Sigmoid",
                                       "SigmoidCrossEntropyLoss",
                                       "Silence",
                                       "Slice",
                                       "Softmax",
                                       "SoftmaxWithLoss",
                                       "Split",
                                       "TanH",
                                       "Threshold",
                                       "Tile",
                                       "WindowData"};

// Field numbers first..last of a message.
struct Fields {
  std::string_view message;
  int first;
  int last;
};
constexpr Fields kFields[] = {
    {"AccuracyParameter", 1, 3},
    {"ArgMaxParameter", 1, 3},
    {"BatchNormParameter", 1, 3},
    {"BiasParameter", 1, 3},
    {"BlobProto", 1, 9},
    {"BlobProtoVector", 1, 1},
    {"BlobShape", 1, 1},
    {"ConcatParameter", 1, 2},
    {"ContrastiveLossParameter", 1, 2},
    {"ConvolutionParameter", 1, 18},
    {"CropParameter", 1, 2},
    {"DataParameter", 1, 10},
    {"Datum", 1, 7},
    {"DropoutParameter", 1, 1},
    {"DummyDataParameter", 1, 6},
    {"ELUParameter", 1, 1},
    {"EltwiseParameter", 1, 3},
    {"EmbedParameter", 1, 5},
    {"ExpParameter", 1, 3},
    {"FillerParameter", 1, 8},
    {"FlattenParameter", 1, 2},
    {"HDF5DataParameter", 1, 3},
    {"HDF5OutputParameter", 1, 1},
    {"HingeLossParameter", 1, 1},
    {"ImageDataParameter", 1, 12},
    {"InfogainLossParameter", 1, 2},
    {"InnerProductParameter", 1, 6},
    {"InputParameter", 1, 1},
    {"LRNParameter", 1, 6},
    {"LayerParameter", 1, 11},
    {"LayerParameter", 100, 146},
    {"LogParameter", 1, 3},
    {"LossParameter", 1, 3},
    {"MVNParameter", 1, 3},
    {"MemoryDataParameter", 1, 4},
    {"NetParameter", 1, 8},
    {"NetParameter", 100, 100},
    {"NetState", 1, 3},
    {"NetStateRule", 1, 5},
    {"PReLUParameter", 1, 2},
    {"ParamSpec", 1, 4},
    {"ParameterParameter", 1, 1},
    {"PoolingParameter", 1, 12},
    {"PowerParameter", 1, 3},
    {"PythonParameter", 1, 4},
    {"ReLUParameter", 1, 2},
    {"RecurrentParameter", 1, 5},
    {"ReductionParameter", 1, 3},
    {"ReshapeParameter", 1, 3},
    {"SPPParameter", 1, 2},
    {"SPPParameter", 6, 6},
    {"ScaleParameter", 1, 5},
    {"SigmoidParameter", 1, 1},
    {"SliceParameter", 1, 3},
    {"SoftmaxParameter", 1, 2},
    {"SolverParameter", 1, 41},
    {"SolverState", 1, 4},
    {"TanHParameter", 1, 1},
    {"ThresholdParameter", 1, 1},
    {"TileParameter", 1, 2},
    {"TransformationParameter", 1, 7},
    {"V0LayerParameter", 1, 22},
    {"V0LayerParameter", 50, 56},
    {"V0LayerParameter", 58, 65},
    {"V0LayerParameter", 1001, 1001},
    {"V1LayerParameter", 1, 27},
    {"V1LayerParameter", 29, 42},
    {"V1LayerParameter", 1001, 1002},
    {"WindowDataParameter", 1, 13},
};

// Enum values that forks have added. All others of such an enum are Caffe's.
struct ForkValue {
  std::string_view enum_name;
  int number;
};
constexpr ForkValue kForkValues[] = {
    {"SolverParameter.SolverType", 6},  {"LossParameter.NormalizationMode", 2000},
    {"ConvolutionParameter.Engine", 3}, {"ConvolutionParameter.Engine", 4},
    {"LRNParameter.Engine", 3},         {"LRNParameter.Engine", 4},
    {"PoolingParameter.Engine", 3},     {"PoolingParameter.Engine", 4},
    {"ReLUParameter.Engine", 3},        {"ReLUParameter.Engine", 4},
};

// Removes the package.
std::string_view ShortName(const std::string& full_name) {
  return std::string_view(full_name).substr(full_name.find('.') + 1);
}

class Finder {
 public:
  explicit Finder(const SourceMap& source) : source_(source) {}

  void Visit(const Message& message, const std::string& path) {
    const std::string outer_layer = layer_;
    if (message.GetDescriptor() == LayerParameter::descriptor()) VisitLayer(message, path);
    std::vector<const FieldDescriptor*> set;
    message.GetReflection()->ListFields(message, &set);
    for (const FieldDescriptor* field : set) {
      const std::string field_path = StrCat(path, path.empty() ? "" : ".", field->name());
      if (field->message_type() == FileSeal::descriptor()) continue;
      if (!IsStockField(*field)) {
        Report(field_path, StrCat("Caffe 1.0 has no field '", field->name(), "' in ",
                                  ShortName(field->containing_type()->full_name())));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        VisitBlocks(message, *field, field_path);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !field->is_repeated()) {
        const EnumValueDescriptor& value = *message.GetReflection()->GetEnum(message, field);
        if (!IsStockEnumValue(value)) {
          Report(field_path,
                 StrCat("Caffe 1.0 has no value ", value.name(), " for '", field->name(), "'"));
        }
      }
    }
    layer_ = outer_layer;
  }

  std::vector<Problem> Take() { return std::move(problems_); }

 private:
  void VisitLayer(const Message& message, const std::string& path) {
    const auto& layer = static_cast<const LayerParameter&>(message);
    layer_ = layer.name();
    if (!IsStockLayerType(layer.type())) {
      Report(path + ".type", StrCat("Caffe 1.0 has no layer type '", layer.type(), "'"));
    }
  }

  void VisitBlocks(const Message& message, const FieldDescriptor& field, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    if (!field.is_repeated()) return Visit(reflection.GetMessage(message, &field), path);
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      Visit(reflection.GetRepeatedMessage(message, &field, i), StrCat(path, "[", i, "]"));
    }
  }

  void Report(const std::string& path, std::string text) {
    Where where = source_.Locate(path);
    where.layer = layer_;
    problems_.push_back({ErrorCode::kInvalidArgument, std::move(where), std::move(text)});
  }

  const SourceMap& source_;
  std::string layer_;
  std::vector<Problem> problems_;
};

}  // namespace

bool IsStockLayerType(std::string_view type) {
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

bool IsStockField(const FieldDescriptor& field) {
  const std::string_view message = ShortName(field.containing_type()->full_name());
  return std::any_of(std::begin(kFields), std::end(kFields), [&](const Fields& fields) {
    return fields.message == message && fields.first <= field.number() &&
           field.number() <= fields.last;
  });
}

bool IsStockEnumValue(const EnumValueDescriptor& value) {
  const std::string_view name = ShortName(value.type()->full_name());
  return std::none_of(std::begin(kForkValues), std::end(kForkValues), [&](const ForkValue& fork) {
    return fork.enum_name == name && fork.number == value.number();
  });
}

std::vector<Problem> FindNotStock(const Message& message, const SourceMap& source) {
  Finder finder(source);
  finder.Visit(message, "");
  return finder.Take();
}

std::string DescribeLayersNotStock(const NetParameter& net) {
  std::vector<std::string> layers;
  for (const LayerParameter& layer : net.layer()) {
    if (IsStockLayerType(layer.type())) continue;
    layers.push_back(StrCat("\"", layer.name(), "\" (", layer.type(), ")"));
  }
  if (layers.empty()) return "";
  constexpr size_t kMost = 20;
  const size_t more = layers.size() - std::min(layers.size(), kMost);
  layers.resize(layers.size() - more);
  return StrCat("Caffe 1.0 has no such layers and cannot use the weights of this net: ",
                Join(layers, ", "), more > 0 ? StrCat(" and ", more, " more") : "");
}

}  // namespace crema
