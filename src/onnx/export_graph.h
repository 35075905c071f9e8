// An ONNX graph that is being written: nodes, constants and weights.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "onnx_model.pb.h"

namespace crema {

// An attribute of a node.
struct OnnxAttribute {
  OnnxAttribute(std::string name, int64_t value);
  OnnxAttribute(std::string name, int value) : OnnxAttribute(std::move(name), int64_t{value}) {}
  OnnxAttribute(std::string name, float value);
  OnnxAttribute(std::string name, double value)
      : OnnxAttribute(std::move(name), static_cast<float>(value)) {}
  OnnxAttribute(std::string name, const char* value);
  OnnxAttribute(std::string name, const std::vector<int64_t>& value);

  onnx::AttributeProto proto;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

// A constant of the graph: elements of its own, or a view of a weight.
struct OnnxConstant {
  std::string name = {};
  std::vector<int64_t> dims = {};
  onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT;
  std::string bytes = {};       // little-endian; empty: `weight`
  ConstTensorView weight = {};  // f32; must live until the file is written
  bool is_weight = false;       // made from parameters of a layer
};

// Names nodes and values, and knows which form of an operator the opset has. Thread safety: one
// thread.
class OnnxGraphWriter {
 public:
  explicit OnnxGraphWriter(int opset) : opset_(opset) {}

  int opset() const { return opset_; }

  // Begins a layer: names of nodes and values made from now on begin with `name`.
  void Begin(const std::string& name);

  // Add a node and return its output, or outputs. An empty input is an optional one that is absent.
  std::string Add(const char* type, std::vector<std::string> inputs,
                  const OnnxAttributes& attributes = {});
  std::vector<std::string> AddMany(const char* type, std::vector<std::string> inputs,
                                   size_t outputs, const OnnxAttributes& attributes = {});

  // Return the name of a constant. Equal ones have one name within a layer.
  std::string Floats(const std::vector<int64_t>& dims, const std::vector<float>& values,
                     bool is_weight = false);
  std::string Scalar(double value) { return Floats({}, {static_cast<float>(value)}); }
  std::string Ints(const std::vector<int64_t>& values);
  std::string Int(int64_t value);  // a scalar
  std::string Bytes(const std::vector<int64_t>& dims, onnx::TensorProto::DataType type,
                    std::string bytes);
  // Returns the name of a weight in these dimensions, which must have its number of elements.
  // `key` identifies it: the same key and dimensions give one constant.
  std::string Weight(const std::string& key, const std::vector<int64_t>& dims,
                     const ConstTensorView& value);

  // Gives a value of the present layer its final name: renames it, or copies it by Identity if it
  // was named before.
  void Name(const std::string& value, const std::string& name);

  // Keeps a name for Name and inputs: nodes and constants get others.
  void Keep(const std::string& name) { ++used_[name]; }
  // Takes a name that nodes do not make: an input of the graph.
  void Reserve(const std::string& name) { final_.insert(name); }
  // Names the node that makes `value`, unless another has that name.
  void NameNode(const std::string& value, const std::string& name);

  const std::vector<onnx::NodeProto>& nodes() const { return nodes_; }
  const std::vector<OnnxConstant>& constants() const { return constants_; }

 private:
  std::string Fresh(const std::string& hint);
  std::string Constant(OnnxConstant constant);

  const int opset_;
  std::string layer_;
  size_t first_ = 0;  // first node of the layer
  std::map<std::string, int> used_;
  std::set<std::string> final_;  // values with their last name
  std::set<std::string> node_names_;
  std::map<std::string, std::string> equal_;  // constants of this layer, by content
  std::map<std::string, std::string> weights_;
  std::vector<onnx::NodeProto> nodes_;
  std::vector<OnnxConstant> constants_;
};

// Adds a reduction over `axes`, for example "ReduceSum", in the form of the opset.
std::string OnnxReduce(OnnxGraphWriter* graph, const char* type, const std::string& x,
                       const std::vector<int64_t>& axes, bool keep);

}  // namespace crema
