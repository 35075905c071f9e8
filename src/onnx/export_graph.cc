#include "onnx/export_graph.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

using onnx::AttributeProto;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string KeyOf(const OnnxConstant& constant) {
  std::string key = StrCat(static_cast<int>(constant.type));
  for (const int64_t dim : constant.dims) key += StrCat(" ", dim);
  return StrCat(key, "\n", constant.bytes);
}

}  // namespace

OnnxAttribute::OnnxAttribute(std::string name, int64_t value) {
  proto.set_name(std::move(name));
  proto.set_type(AttributeProto::INT);
  proto.set_i(value);
}

OnnxAttribute::OnnxAttribute(std::string name, float value) {
  proto.set_name(std::move(name));
  proto.set_type(AttributeProto::FLOAT);
  proto.set_f(value);
}

OnnxAttribute::OnnxAttribute(std::string name, const char* value) {
  proto.set_name(std::move(name));
  proto.set_type(AttributeProto::STRING);
  proto.set_s(value);
}

OnnxAttribute::OnnxAttribute(std::string name, const std::vector<int64_t>& value) {
  proto.set_name(std::move(name));
  proto.set_type(AttributeProto::INTS);
  proto.mutable_ints()->Add(value.begin(), value.end());
}

void OnnxGraphWriter::Begin(const std::string& name) {
  layer_ = name;
  first_ = nodes_.size();
  equal_.clear();
}

std::string OnnxGraphWriter::Fresh(const std::string& hint) {
  const int count = used_[hint]++;
  if (count == 0) return hint;
  return Fresh(StrCat(hint, "_", count));
}

std::string OnnxGraphWriter::Add(const char* type, std::vector<std::string> inputs,
                                 const OnnxAttributes& attributes) {
  return AddMany(type, std::move(inputs), 1, attributes).front();
}

std::vector<std::string> OnnxGraphWriter::AddMany(const char* type, std::vector<std::string> inputs,
                                                  size_t outputs,
                                                  const OnnxAttributes& attributes) {
  onnx::NodeProto& node = nodes_.emplace_back();
  node.set_op_type(type);
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  for (const std::string& input : inputs) node.add_input(input);
  for (const OnnxAttribute& attribute : attributes) *node.add_attribute() = attribute.proto;
  std::vector<std::string> names;
  for (size_t o = 0; o < outputs; ++o) {
    names.push_back(Fresh(StrCat(layer_, "/", type)));
    node.add_output(names.back());
  }
  node.set_name(names.front());
  return names;
}

std::string OnnxGraphWriter::Constant(OnnxConstant constant) {
  std::string& name = equal_[KeyOf(constant)];
  if (!name.empty()) return name;
  name = Fresh(StrCat(layer_, "/const"));
  constant.name = name;
  constants_.push_back(std::move(constant));
  return name;
}

std::string OnnxGraphWriter::Floats(const std::vector<int64_t>& dims,
                                    const std::vector<float>& values, bool is_weight) {
  OnnxConstant constant{.dims = dims, .bytes = BytesOf(values)};
  constant.is_weight = is_weight;
  return Constant(std::move(constant));
}

std::string OnnxGraphWriter::Ints(const std::vector<int64_t>& values) {
  return Bytes({static_cast<int64_t>(values.size())}, onnx::TensorProto::INT64, BytesOf(values));
}

std::string OnnxGraphWriter::Int(int64_t value) {
  return Bytes({}, onnx::TensorProto::INT64, BytesOf(std::vector<int64_t>{value}));
}

std::string OnnxGraphWriter::Bytes(const std::vector<int64_t>& dims,
                                   onnx::TensorProto::DataType type, std::string bytes) {
  return Constant({.dims = dims, .type = type, .bytes = std::move(bytes)});
}

std::string OnnxGraphWriter::Weight(const std::string& key, const std::vector<int64_t>& dims,
                                    const ConstTensorView& value) {
  std::string full = key;
  for (const int64_t dim : dims) full += StrCat(" ", dim);
  std::string& name = weights_[full];
  if (!name.empty()) return name;
  name = Fresh(key);
  constants_.push_back({.name = name, .dims = dims, .weight = value, .is_weight = true});
  return name;
}

void OnnxGraphWriter::Name(const std::string& value, const std::string& name) {
  CREMA_CHECK(!final_.contains(name));
  bool found = false;
  for (size_t n = first_; n < nodes_.size() && !final_.contains(value); ++n) {
    for (std::string& output : *nodes_[n].mutable_output()) {
      if (output != value) continue;
      output = name;
      found = true;
    }
  }
  final_.insert(name);
  if (!found) {
    nodes_.emplace_back();
    nodes_.back().set_op_type("Identity");
    nodes_.back().add_input(value);
    nodes_.back().add_output(name);
    nodes_.back().set_name(Fresh(StrCat(layer_, "/Identity")));
    return;
  }
  for (size_t n = first_; n < nodes_.size(); ++n) {
    for (std::string& input : *nodes_[n].mutable_input()) {
      if (input == value) input = name;
    }
  }
}

void OnnxGraphWriter::NameNode(const std::string& value, const std::string& name) {
  for (size_t n = first_; n < nodes_.size(); ++n) {
    const auto& outputs = nodes_[n].output();
    if (std::ranges::find(outputs, value) == outputs.end()) continue;
    if (node_names_.insert(name).second) nodes_[n].set_name(name);
  }
}

std::string OnnxReduce(OnnxGraphWriter* graph, const char* type, const std::string& x,
                       const std::vector<int64_t>& axes, bool keep) {
  const bool as_input = graph->opset() >= 18 || std::string_view(type) == "ReduceSum";
  if (as_input) return graph->Add(type, {x, graph->Ints(axes)}, {{"keepdims", keep ? 1 : 0}});
  return graph->Add(type, {x}, {{"axes", axes}, {"keepdims", keep ? 1 : 0}});
}

}  // namespace crema
