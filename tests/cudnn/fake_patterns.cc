// The requirements of the fake cuDNN on graphs of training, as observed with cuDNN 9.19
// (real_fusions_test.cc). All other graphs have engines.
#include <algorithm>
#include <cstddef>

#include "core/strings.h"
#include "cudnn/fake_descriptor.h"

namespace crema::test {
namespace {

using Names = std::vector<std::string>;
using Operations = std::vector<const FakeDescriptor*>;

Operations OperationsOf(const FakeDescriptor& graph) {
  Operations operations;
  for (void* descriptor : graph.ArrayOf<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    operations.push_back(static_cast<FakeDescriptor*>(descriptor));
  }
  return operations;
}

std::string NameOf(const FakeDescriptor& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return "forward";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return "to input";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return "to weights";
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
      return "statistics";
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
      return "norm gradient";
    default:
      break;
  }
  switch (ModeOf(operation)) {
    case CUDNN_POINTWISE_ADD:
      return "add";
    case CUDNN_POINTWISE_MUL:
      return "multiply";
    case CUDNN_POINTWISE_SUB:
      return "subtract";
    case CUDNN_POINTWISE_RELU_BWD:
      return "relu backward";
    default:
      return "relu";
  }
}

bool IsOfTraining(const Names& names) {
  return std::ranges::any_of(names, [](const std::string& name) {
    return name != "forward" && name != "to input" && name != "to weights" && name != "add" &&
           name != "relu";
  });
}

bool HasEngines(const Names& names) {
  const std::vector<Names> patterns{
      {"forward", "statistics"},
      {"multiply", "add", "relu", "forward"},
      {"multiply", "add", "relu", "forward", "statistics"},
      {"multiply", "add", "relu", "to weights"},
      {"to input", "subtract", "multiply", "multiply", "add", "relu backward", "norm gradient"}};
  return std::ranges::find(patterns, names) != patterns.end();
}

// The single convolution of a graph: its other inputs besides filters, and the tensors before and
// after it.
struct Convolution {
  std::vector<const FakeDescriptor*> reads;
  const FakeDescriptor *x, *w, *y;
};

Convolution ConvolutionOf(const Operations& operations) {
  for (const FakeDescriptor* operation : operations) {
    const auto at = [&](int name) { return &operation->DescriptorOf(name); };
    if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      const auto* x = at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
      return {{x},
              x,
              at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
              at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)};
    }
    if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      const auto* dy = at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
      return {{dy},
              at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
              at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
              dy};
    }
    if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
      const auto* x = at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
      const auto* dy = at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
      return {{x, dy}, x, at(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW), dy};
    }
  }
  return {};
}

std::string ConvolutionFault(const Convolution& convolution) {
  const cudnnDataType_t type = TypeOf(*convolution.w);
  if (type != CUDNN_DATA_HALF && !FakeRules().training_in_any_type) {
    return "getXDesc()->getDataType() != CUDNN_DATA_HALF";
  }
  for (const FakeDescriptor* read : convolution.reads) {
    if (TypeOf(*read) != type) return "!is_input_compute_type_match";
  }
  const int64_t in = SizesOf(*convolution.x)[1], out = SizesOf(*convolution.y)[1];
  if (SizesOf(*convolution.w)[1] != in) return "groups";
  return in % 8 == 0 && out % 8 == 0 ? "" : "channels of x and y are multiples of 8";
}

// Checks a tensor with memory; `type` is that of the filters.
std::string MemoryFault(const FakeDescriptor& tensor, cudnnDataType_t type) {
  if (tensor.ValueOf<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) % 16 != 0) {
    return "getPtrAlignment() % 16 != 0";
  }
  if (tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)[1] != 1) return "!isAllTensorNHWC()";
  const auto sizes = SizesOf(tensor);
  const bool of_channels = std::ranges::count(sizes, 1) + 1 == std::ssize(sizes);
  return TypeOf(tensor) == type || of_channels ? "" : "blobs of other types than filters";
}

// Checks all tensors with memory, and the factors of a normalized input of a convolution.
std::string TensorsFault(const Operations& operations, cudnnDataType_t type) {
  const bool to_input = NameOf(*operations[0]) == "to input";
  for (const FakeDescriptor* operation : operations) {
    for (const auto& [name, attribute] : operation->attributes) {
      if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
      const FakeDescriptor& tensor = operation->DescriptorOf(name);
      if (tensor.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || IsVirtual(tensor)) continue;
      if (std::string fault = MemoryFault(tensor, type); !fault.empty()) return fault;
      const bool factor = name == CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
      if (factor && TypeOf(tensor) != (to_input ? CUDNN_DATA_FLOAT : type)) {
        return to_input ? "inputs of BatchNorm are f32" : "getScaleDesc()->getDataType()";
      }
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> FakeOperations(const FakeDescriptor& graph) {
  Names names;
  for (const FakeDescriptor* operation : OperationsOf(graph)) names.push_back(NameOf(*operation));
  return names;
}

std::string FakePatternFault(const FakeDescriptor& graph) {
  const Names names = FakeOperations(graph);
  if (!IsOfTraining(names)) return "";
  if (!HasEngines(names)) return StrCat("no pattern of ", names.size(), " operations is like that");
  const Operations operations = OperationsOf(graph);
  const Convolution convolution = ConvolutionOf(operations);
  if (std::string fault = ConvolutionFault(convolution); !fault.empty()) return fault;
  return TensorsFault(operations, TypeOf(*convolution.w));
}

}  // namespace crema::test
