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
  bool made = false;  // by the importer, which may extend its operator
};

// Attribute that the importer gives to nodes in branches and bodies: their opset, if it differs
// from that of the node that has the branch.
inline constexpr const char* kOpsetAttribute = "crema_opset";

struct OnnxInput {
  std::string name;
  int type = 0;               // onnx::TensorProto::DataType; 0: no tensor
  bool has_shape = false;     // the file states how many axes it has
  std::vector<int64_t> dims;  // -1: unknown
};

// Names that are used once. Takes little time for any number of equal ones.
class UniqueNames {
 public:
  // Returns the name, or one with a number after it that is not in `other` either, and remembers
  // it.
  std::string Add(const std::string& wanted, const UniqueNames* other = nullptr);
  void Remove(const std::string& name) { used_.erase(name); }

 private:
  std::set<std::string> used_;
  std::map<std::string, int> next_;  // number to try, by name
};

// The size of an import: what is in the file, and what is made of it, which is bounded.
struct OnnxWork {
  int64_t given = 0;           // elements of the file's constants
  int64_t folded = 0;          // elements of values that were computed
  int64_t unrolled_nodes = 0;  // nodes that steps of loops have become
  int64_t unrolled_bytes = 0;  // of the file, in these steps
  int64_t sequence_items = 0;  // elements of all sequences, counted for each of them
};

struct OnnxGraph {
  std::string path;  // for messages and external data
  std::string name;
  std::vector<OnnxNode> nodes;  // each after the nodes whose outputs it reads
  std::map<std::string, OnnxTensor> constants;
  std::map<std::string, std::string> unreadable;  // initializers of other types, with the reason
  std::vector<OnnxInput> inputs;                  // without those that have initializers
  std::vector<std::string> outputs;               // names of the graph's outputs
  // Values that are others under names of their own (outputs of Identity).
  std::map<std::string, std::string> aliases;
  UniqueNames names;               // of values
  std::vector<std::string> added;  // constants that loops and branches have brought
  OnnxWork work;

  // Adds a constant of a loop or branch.
  void Add(const std::string& constant, OnnxTensor tensor);

  // Returns the value that a name stands for.
  const std::string& Resolve(const std::string& value) const;
};

// Returns the graph of a model: initializers are constants and functions are inlined. Throws
// kDataLoss for inputs that nothing produces, names that are produced twice, and cycles; and what
// ReadOnnxTensor throws.
OnnxGraph MakeOnnxGraph(onnx::ModelProto model, const std::string& path);

// The nodes of an inner graph under names of their own.
struct InlinedGraph {
  std::vector<OnnxNode> nodes;
  std::vector<std::string> outputs;  // names of the values that its outputs are
};

// Returns the nodes of a branch or body of `node`; its initializers become constants of `graph`.
// `inputs` has the values that its first inputs are. Names that it does not define are those of the
// outer graph. Throws what ReadOnnxTensor throws.
InlinedGraph InlineGraph(const OnnxNode& node, const onnx::GraphProto& inner,
                         const std::vector<std::string>& inputs, OnnxGraph* graph);

// Sorts the nodes so that each is after those whose outputs it reads. Throws like MakeOnnxGraph.
void SortNodes(OnnxGraph* graph);

// Returns true for the domain of ONNX's own operators.
bool IsDefaultDomain(const std::string& domain);

// Returns "node 'conv1' (Conv)" or "node of 'y' (Conv)" for messages.
std::string DescribeNode(const onnx::NodeProto& node);

// Returns the attribute of a node, or null.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);

}  // namespace crema
