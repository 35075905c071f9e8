// The conversion of one ONNX node: what converters see and do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "onnx/import_graph.h"
#include "onnx/model_file.h"

namespace crema {

using Dims = std::vector<int64_t>;

// A blob of the net that is being made. Whole numbers and booleans are floats in it.
struct OnnxBlob {
  std::string name;
  Shape shape;
  int type = onnx::TensorProto::FLOAT;  // of the ONNX value that it holds
};

// A value of the ONNX graph: a constant, a blob, or unknown, if its node cannot be converted.
struct OnnxValue {
  bool known = false;
  OnnxBlob blob;  // without a name: a constant that no layer reads so far
  const OnnxTensor* constant = nullptr;
};

// A layer with its parameters.
struct ImportedLayer {
  LayerParameter param;  // without blobs
  std::vector<OnnxTensor> weights;
};

// A blob that is another one with its elements in another order: the dimensions of the source split
// into `factors`, these taken in `order`, and grouped to the dimensions of the blob.
struct MovedBlob {
  OnnxBlob source;
  std::vector<int64_t> factors;  // without 1, but for a batch of 1 (the first axis)
  std::vector<size_t> order;
};

// A blob that is a part of the last axis of another one.
struct CutOfBlob {
  OnnxBlob source;
  int64_t start = 0;
};

// State of the conversion of a graph.
struct ImportState {
  OnnxGraph* graph = nullptr;
  const Registry* registry = nullptr;
  std::map<std::string, OnnxValue> values;  // by name in the graph
  std::vector<ImportedLayer> layers;
  std::map<std::string, MovedBlob> moved;        // by name of the blob
  std::map<std::string, CutOfBlob> cuts;         // likewise
  std::map<std::string, std::string> unchecked;  // blobs before the check, by checked blob
  UniqueNames blob_names;
  UniqueNames layer_names;
  std::vector<std::string> notes;
};

// Sets the parameters of a layer.
using SetLayer = std::function<void(LayerParameter*)>;

// One node. Functions that take an input or output by its index throw kUnsupported, with the
// reason, if the node lacks it. Thread safety: one thread.
class NodeImport {
 public:
  NodeImport(const OnnxNode& node, ImportState* state);

  const onnx::NodeProto& node() const { return node_.proto; }
  int64_t opset() const { return node_.opset; }
  [[noreturn]] void Refuse(const std::string& why) const;  // throws kUnsupported

  // Inputs.
  size_t inputs() const { return static_cast<size_t>(node_.proto.input_size()); }
  bool Has(size_t input) const;
  const Shape& ShapeOf(size_t input) const { return ValueOf(input).blob.shape; }
  int TypeOf(size_t input) const { return ValueOf(input).blob.type; }
  // Returns the values of a constant, or null.
  const OnnxTensor* Constant(size_t input) const;
  // Returns the blob of an input; a constant becomes a Parameter layer.
  OnnxBlob In(size_t input);
  // Return the elements of a constant input. Refuse the node if it is not constant.
  const OnnxTensor& Weights(size_t input, std::string_view what) const;
  std::vector<int64_t> Ints(size_t input, std::string_view what) const;
  std::vector<float> Floats(size_t input, std::string_view what) const;
  // Refuses a constant input with a whole number that no float is, which it names. In() and
  // Floats() do. Limits of int32 and int64 are allowed where the operator compares or moves values.
  void RequireFloats(size_t input) const;

  // Attributes. Throw kUnsupported for one of another type.
  bool HasAttribute(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t fallback) const;
  float Float(std::string_view name, float fallback) const;
  std::string String(std::string_view name, std::string_view fallback) const;
  // Returns one of `values`, the first of them by default. Throws kUnsupported for another one.
  std::string Choice(std::string_view name, const std::vector<std::string>& values) const;
  // Throws kUnsupported for a node without the attribute.
  int64_t RequiredInt(std::string_view name) const;
  std::vector<int64_t> IntList(std::string_view name) const;
  std::vector<float> FloatList(std::string_view name) const;
  // Returns the values of an attribute of old opsets, which later ones have as an input; else an
  // empty list.
  std::vector<int64_t> IntsOf(std::string_view attribute, size_t input) const;

  // Adds a layer with `tops` outputs; its shapes are inferred at once. Throws what Infer throws.
  std::vector<OnnxBlob> AddAll(const std::string& type, const std::vector<OnnxBlob>& bottoms,
                               size_t tops, const SetLayer& set = {},
                               std::vector<OnnxTensor> weights = {});
  OnnxBlob Add(const std::string& type, const std::vector<OnnxBlob>& bottoms,
               const SetLayer& set = {}, std::vector<OnnxTensor> weights = {});
  // Remembers that `blob`, which this node made, is another one moved; returns that of a blob, or
  // null.
  void SetMoved(const OnnxBlob& blob, MovedBlob moved);
  const MovedBlob* Moved(const OnnxBlob& blob) const;
  // The same of cuts.
  void SetCut(const OnnxBlob& blob, CutOfBlob cut);
  const CutOfBlob* Cut(const OnnxBlob& blob) const;
  // Returns whole numbers, checked when the net runs: one that may be a rounded one is an error.
  OnnxBlob Checked(const OnnxBlob& computed);
  // Undoes that, for casts to floats, which round.
  OnnxBlob Unchecked(OnnxBlob blob) const;
  // Adds a Parameter layer.
  OnnxBlob AddConstant(const OnnxTensor& tensor);

  // Outputs.
  size_t outputs() const { return static_cast<size_t>(node_.proto.output_size()); }
  bool Wants(size_t output) const;  // it has a name
  // Sets the value of an output, of the type of the blob; checked, if it is a whole number that the
  // operator computes. Does nothing for one without a name.
  void Output(size_t output, const OnnxBlob& blob);
  void Output(size_t output, OnnxTensor constant);

  void Note(const std::string& text);
  // Removes the layers of this node, which failed.
  void Undo();
  // Gives the layers of this node their final names.
  void Finish();

 private:
  const OnnxValue& ValueOf(size_t input) const;
  bool MayRound(int type) const;  // outputs of this type
  const onnx::AttributeProto* Attribute(std::string_view name,
                                        onnx::AttributeProto::AttributeType type) const;

  const OnnxNode& node_;
  ImportState& state_;
  size_t first_layer_;
  std::set<std::string> tops_;                  // of the own layers
  std::map<std::string, std::string> renamed_;  // own blobs that are outputs
  std::vector<std::string> moved_;              // own blobs with an entry in `moved` or `cuts`
};

// Returns the blob, renamed for the type.
inline OnnxBlob WithType(OnnxBlob blob, int type) {
  blob.type = type;
  return blob;
}

}  // namespace crema
