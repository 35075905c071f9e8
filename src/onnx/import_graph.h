// The graph of an ONNX model, with functions inlined and constants apart.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_file.h"

namespace crema {

struct OnnxNode {
  onnx::NodeProto proto;
  int64_t opset = 0;  // version of the operator set of its domain
};

struct OnnxInput {
  std::string name;
  int type = 0;               // onnx::TensorProto::DataType; 0: no tensor
  bool has_shape = false;     // the file states how many axes it has
  std::vector<int64_t> dims;  // -1: unknown
};

struct OnnxGraph {
  std::string path;  // for messages and external data
  std::string name;
  std::vector<OnnxNode> nodes;  // each after the nodes whose outputs it reads
  std::map<std::string, OnnxTensor> constants;
  std::vector<OnnxInput> inputs;     // without those that have initializers
  std::vector<std::string> outputs;  // names of the graph's outputs
  // Values that are others under names of their own (outputs of Identity).
  std::map<std::string, std::string> aliases;
  std::set<std::string> names;  // all names of values so far

  // Returns the value that a name stands for.
  const std::string& Resolve(const std::string& value) const;
};

// Returns the graph of a model: initializers are constants and functions are inlined. Throws
// kDataLoss for inputs that nothing produces, names that are produced twice, and cycles; and what
// ReadOnnxTensor throws.
OnnxGraph MakeOnnxGraph(onnx::ModelProto model, const std::string& path);

// Returns the nodes of a branch of an If node, under names of their own; its initializers become
// constants. The outputs of the node become aliases. Requires: `branch` is then_branch or
// else_branch of `node`.
std::vector<OnnxNode> InlineBranch(const OnnxNode& node, const onnx::GraphProto& branch,
                                   OnnxGraph* graph);

// Sorts the nodes so that each is after those whose outputs it reads. Throws like MakeOnnxGraph.
void SortNodes(OnnxGraph* graph);

// Returns "node 'conv1' (Conv)" or "node of 'y' (Conv)" for messages.
std::string DescribeNode(const onnx::NodeProto& node);

// Returns the attribute of a node, or null.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);

}  // namespace crema
