// Descriptors of the stand-in, and their graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cudnn/fake_cudnn.h"

namespace crema::test {

struct FakeDescriptor;

struct FakeAttribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  int64_t count = 0;
  std::vector<std::byte> bytes;
};

// One descriptor. Heuristics make those that they return.
struct FakeDescriptor {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finalized = false;
  std::map<int, FakeAttribute> attributes;
  // For engines, their configurations and plans.
  FakeEngine engine;
  const FakeDescriptor* graph = nullptr;

  bool Has(int name) const { return attributes.contains(name); }
  template <typename T>
  std::vector<T> ArrayOf(int name) const {
    const FakeAttribute& attribute = attributes.at(name);
    std::vector<T> array(static_cast<size_t>(attribute.count));
    std::memcpy(array.data(), attribute.bytes.data(), attribute.bytes.size());
    return array;
  }
  template <typename T>
  T ValueOf(int name) const {
    T value{};
    std::memcpy(&value, attributes.at(name).bytes.data(), sizeof(T));
    return value;
  }
  const FakeDescriptor& DescriptorOf(int name) const {
    return *static_cast<const FakeDescriptor*>(ValueOf<void*>(name));
  }
};

inline std::vector<int64_t> SizesOf(const FakeDescriptor& tensor) {
  return tensor.ArrayOf<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
}
inline cudnnDataType_t TypeOf(const FakeDescriptor& tensor) {
  return tensor.ValueOf<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}
inline bool IsVirtual(const FakeDescriptor& tensor) {
  return tensor.Has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
         tensor.ValueOf<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}
// Returns the mode of a pointwise operation.
inline cudnnPointwiseMode_t ModeOf(const FakeDescriptor& operation) {
  return operation.DescriptorOf(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      .ValueOf<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}

// Names of the operations of a graph, in order.
std::vector<std::string> FakeOperations(const FakeDescriptor& graph);

// Returns the fault of a descriptor that is to be finalized, or empty.
std::string FakeFault(const FakeDescriptor& descriptor);

// Computes the graph on the memory of a variant pack. Returns what is wrong with that; empty:
// nothing.
std::string FakeCompute(const FakeDescriptor& graph, const FakeDescriptor& pack);

}  // namespace crema::test
