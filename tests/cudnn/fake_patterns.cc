// The operations of a graph, for tests that refuse some.
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
    default:
      break;
  }
  return ModeOf(operation) == CUDNN_POINTWISE_ADD ? "add" : "relu";
}

}  // namespace

std::vector<std::string> FakeOperations(const FakeDescriptor& graph) {
  Names names;
  for (const FakeDescriptor* operation : OperationsOf(graph)) names.push_back(NameOf(*operation));
  return names;
}

}  // namespace crema::test
