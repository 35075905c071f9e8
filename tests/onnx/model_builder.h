// ONNX models made in code, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "inference/model.h"
#include "onnx/import.h"
#include "onnx_model.pb.h"
#include "support/temp_dir.h"

namespace crema::test {

// A model of one graph. A dimension of -1 is unknown.
class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset = 17) {
    proto_.set_ir_version(8);
    proto_.add_opset_import()->set_version(opset);
    proto_.mutable_graph()->set_name("test");
  }

  onnx::ModelProto& proto() { return proto_; }
  onnx::GraphProto& graph() { return *proto_.mutable_graph(); }

  ModelBuilder& Input(const std::string& name, const std::vector<int64_t>& dims,
                      int type = onnx::TensorProto::FLOAT) {
    auto* value = graph().add_input();
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t dim : dims) {
      auto* entry = tensor->mutable_shape()->add_dim();
      if (dim >= 0) entry->set_dim_value(dim);
      if (dim < 0) entry->set_dim_param("n");
    }
    return *this;
  }

  ModelBuilder& Output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }

  onnx::TensorProto& Floats(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<float>& values) {
    onnx::TensorProto* tensor = Tensor(name, dims, onnx::TensorProto::FLOAT);
    tensor->mutable_float_data()->Add(values.begin(), values.end());
    return *tensor;
  }

  onnx::TensorProto& Ints(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<int64_t>& values) {
    onnx::TensorProto* tensor = Tensor(name, dims, onnx::TensorProto::INT64);
    tensor->mutable_int64_data()->Add(values.begin(), values.end());
    return *tensor;
  }

  // The node has the name "n_" and that of its first output.
  onnx::NodeProto& Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    return AddNode(&graph(), op, inputs, outputs);
  }

  template <typename Graph>
  static onnx::NodeProto& AddNode(Graph* graph, const std::string& op,
                                  const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs) {
    onnx::NodeProto* node = graph->add_node();
    node->set_op_type(op);
    node->set_name("n_" + outputs[0]);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    return *node;
  }

  static void SetInt(onnx::NodeProto& node, const std::string& name, int64_t value) {
    auto* attribute = Attribute(node, name, onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void SetInts(onnx::NodeProto& node, const std::string& name,
                      const std::vector<int64_t>& values) {
    auto* attribute = Attribute(node, name, onnx::AttributeProto::INTS);
    attribute->mutable_ints()->Add(values.begin(), values.end());
  }
  static void SetString(onnx::NodeProto& node, const std::string& name, const std::string& value) {
    Attribute(node, name, onnx::AttributeProto::STRING)->set_s(value);
  }
  static onnx::GraphProto& SetGraph(onnx::NodeProto& node, const std::string& name) {
    return *Attribute(node, name, onnx::AttributeProto::GRAPH)->mutable_g();
  }

  std::string Bytes() const { return proto_.SerializeAsString(); }
  // Writes the model as model.onnx and returns its path.
  std::string Write(const TempDir& folder) const { return folder.Write("model.onnx", Bytes()); }

 private:
  static onnx::AttributeProto* Attribute(onnx::NodeProto& node, const std::string& name,
                                         onnx::AttributeProto::AttributeType type) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }

  onnx::TensorProto* Tensor(const std::string& name, const std::vector<int64_t>& dims, int type) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    return tensor;
  }

  onnx::ModelProto proto_;
};

inline ImportedNet Import(const ModelBuilder& builder, const ImportOptions& options = {}) {
  const TempDir folder;
  return ImportOnnx(builder.Write(folder), options);
}

// The message of the error that an import ends with; empty when it succeeds.
inline std::string ImportError(const ModelBuilder& builder, const ImportOptions& options = {}) {
  try {
    Import(builder, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct ShapedValues {
  Shape shape;
  std::vector<float> values;
};

// Runs an imported net on the given inputs.
inline std::map<std::string, ShapedValues> Run(const ImportedNet& imported,
                                               const std::map<std::string, ShapedValues>& inputs) {
  NetFile net;
  net.net = imported.net;
  static const Registry registry = BuiltinRegistry();
  const auto model = Model::Make(net, {}, {}, {}, registry, NullSink());
  ModelRunner runner(model);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, input] : inputs) {
    tensors.push_back({name, ConstTensorView(input.values.data(), input.shape, DType::kF32)});
  }
  runner.Run(tensors);
  std::map<std::string, ShapedValues> outputs;
  for (const BlobInfo& info : model->outputs()) {
    const ConstTensorView view = runner.Output(info.name);
    const auto* values = static_cast<const float*>(view.raw());
    outputs[info.name] = {view.shape(), {values, values + view.count()}};
  }
  return outputs;
}

// The types of the layers, but Input.
inline std::vector<std::string> LayerTypes(const ImportedNet& imported) {
  std::vector<std::string> types;
  for (const LayerParameter& layer : imported.net.layer()) {
    if (layer.type() != "Input") types.push_back(layer.type());
  }
  return types;
}

}  // namespace crema::test
