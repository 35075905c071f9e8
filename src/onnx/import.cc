#include "onnx/import.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "onnx/import_convert.h"
#include "onnx/import_graph.h"
#include "onnx/import_join.h"

namespace crema {
namespace {

using onnx::TensorProto;

// Shapes of the inputs: given, or of the file.
class InputShapes {
 public:
  InputShapes(const OnnxGraph& graph, const ImportOptions& options)
      : graph_(graph), options_(options) {}

  std::map<std::string, Shape> Find() {
    RefuseUnknownNames();
    std::map<std::string, Shape> shapes;
    for (const OnnxInput& input : graph_.inputs) {
      try {
        shapes[input.name] = ShapeOf(input);
      } catch (const Error& error) {
        for (const Problem& problem : error.problems()) problems_.push_back(problem);
      }
    }
    if (!problems_.empty()) throw Error(std::move(problems_));
    return shapes;
  }

 private:
  [[noreturn]] void Refuse(const OnnxInput& input, const std::string& message) const {
    Fail(ErrorCode::kInvalidArgument, StrCat("input '", input.name, "' ", message),
         {.file = graph_.path});
  }

  void RefuseUnknownNames() const {
    std::vector<std::string> names;
    for (const OnnxInput& input : graph_.inputs) names.push_back(input.name);
    for (const auto& [name, shape] : options_.shapes) {
      if (std::ranges::find(names, name) != names.end()) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("has no input '", name, "' (--shape)", DidYouMean(name, names),
                  "; its inputs are: ", Join(names, " ")),
           {.file = graph_.path});
    }
  }

  Shape ShapeOf(const OnnxInput& input) const {
    if (!IsNumberType(input.type)) {
      Refuse(input,
             StrCat("is of ", OnnxTypeName(input.type), "; Crema takes numbers and booleans"));
    }
    const auto given = options_.shapes.find(input.name);
    if (given != options_.shapes.end()) return Checked(input, given->second);
    if (!input.has_shape) {
      Refuse(input, StrCat("has no shape in the file: give --shape ", input.name, "=..."));
    }
    std::vector<int64_t> dims = input.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] >= 0) continue;
      if (i > 0)
        Refuse(input, StrCat("is ", Pattern(input), ": give its size, for example --shape ",
                             input.name, "=", Example(input)));
      dims[i] = 1;
    }
    return Shape(dims);
  }

  Shape Checked(const OnnxInput& input, const Shape& shape) const {
    bool fits = !input.has_shape || shape.axes() == static_cast<int>(input.dims.size());
    for (int i = 0; fits && input.has_shape && i < shape.axes(); ++i) {
      const int64_t dim = input.dims[static_cast<size_t>(i)];
      fits = dim < 0 || dim == shape[i];
    }
    if (!fits) {
      Refuse(input,
             StrCat("is ", Pattern(input), " in the file, but --shape gives ", ToString(shape)));
    }
    return shape;
  }

  static std::string Pattern(const OnnxInput& input) {
    std::vector<std::string> parts;
    for (const int64_t dim : input.dims) parts.push_back(dim < 0 ? "?" : StrCat(dim));
    return parts.empty() ? "scalar" : Join(parts, "x");
  }

  static std::string Example(const OnnxInput& input) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < input.dims.size(); ++i) {
      const int64_t dim = input.dims[i];
      parts.push_back(dim >= 0 ? StrCat(dim) : i == 0 ? "1" : "224");
    }
    return Join(parts, "x");
  }

  const OnnxGraph& graph_;
  const ImportOptions& options_;
  std::vector<Problem> problems_;
};

// Layers around those of the nodes: inputs, outputs under their names, and silence.
class Assembly {
 public:
  Assembly(const OnnxGraph& graph, ConvertedGraph* converted)
      : graph_(graph), state_(converted->state) {}

  ImportedNet Make() {
    CountReads();
    for (const std::string& output : graph_.outputs) AddOutput(output);
    RemoveUnreadLayers();
    ImportedNet result;
    result.net.set_name(graph_.name.empty() ? std::filesystem::path(graph_.path).stem().string()
                                            : graph_.name);
    AddInputs(&result.net);
    for (ImportedLayer& layer : state_.layers) AddLayer(&layer, &result);
    AddSilence(&result.net);
    result.notes.insert(result.notes.begin(), state_.notes.begin(), state_.notes.end());
    return result;
  }

 private:
  void CountReads() {
    reads_.clear();
    for (const ImportedLayer& layer : state_.layers) {
      for (const std::string& bottom : layer.param.bottom()) ++reads_[bottom];
    }
  }

  // Adds a layer whose top is the blob under the name of the output.
  void Copy(const OnnxBlob& from, const std::string& name) {
    ImportedLayer layer;
    layer.param.set_name(UniqueImportName(name, &state_.layer_names));
    layer.param.set_type("Reshape");
    layer.param.add_bottom(from.name);
    layer.param.add_top(name);
    auto* shape = layer.param.mutable_reshape_param()->mutable_shape();
    for (int i = 0; i < from.shape.axes(); ++i) shape->add_dim(0);
    state_.layers.push_back(std::move(layer));
    ++reads_[from.name];
  }

  void AddConstantOutput(const OnnxValue& value, const std::string& name) {
    ImportedLayer layer;
    layer.param.set_name(UniqueImportName(name, &state_.layer_names));
    layer.param.set_type("Parameter");
    layer.param.add_top(name);
    auto* shape = layer.param.mutable_parameter_param()->mutable_shape();
    for (const int64_t dim : value.constant->dims) shape->add_dim(dim);
    layer.weights.push_back(*value.constant);
    state_.layers.push_back(std::move(layer));
  }

  // Gives a blob another name everywhere.
  std::string Rename(const std::string& blob) {
    const std::string fresh = UniqueImportName(StrCat(blob, "/inner"), &state_.blob_names);
    for (ImportedLayer& layer : state_.layers) {
      for (auto& bottom : *layer.param.mutable_bottom()) {
        if (bottom == blob) bottom = fresh;
      }
      for (auto& top : *layer.param.mutable_top()) {
        if (top == blob) top = fresh;
      }
    }
    for (auto& [name, value] : state_.values) {
      if (value.blob.name == blob) value.blob.name = fresh;
    }
    reads_[fresh] = reads_[blob];
    reads_.erase(blob);
    return fresh;
  }

  void AddOutput(const std::string& output) {
    OnnxValue value = state_.values.at(graph_.Resolve(output));
    if (value.blob.name == output && reads_[output] == 0 && !IsInput(output) &&
        !outputs_.contains(output)) {
      outputs_.insert(output);
      return;
    }
    if (outputs_.contains(output)) return;  // listed twice
    if (value.blob.name == output && !IsInput(output)) value.blob.name = Rename(output);
    const std::string name =
        IsInput(output) ? UniqueImportName(output, &state_.blob_names) : output;
    state_.blob_names.insert(name);
    outputs_.insert(name);
    if (value.constant != nullptr && value.blob.name.empty()) return AddConstantOutput(value, name);
    Copy(value.blob, name);
  }

  bool IsInput(const std::string& name) const {
    return std::ranges::any_of(graph_.inputs,
                               [&](const OnnxInput& input) { return input.name == name; });
  }

  // Removes layers, from the last on, whose tops nothing reads.
  void RemoveUnreadLayers() {
    std::vector<ImportedLayer> kept;
    for (auto layer = state_.layers.rbegin(); layer != state_.layers.rend(); ++layer) {
      const bool used = std::ranges::any_of(layer->param.top(), [&](const std::string& top) {
        return reads_[top] > 0 || outputs_.contains(top);
      });
      if (used) {
        kept.push_back(std::move(*layer));
        continue;
      }
      for (const std::string& bottom : layer->param.bottom()) --reads_[bottom];
    }
    std::ranges::reverse(kept);
    state_.layers = std::move(kept);
  }

  void AddInputs(NetParameter* net) {
    for (const OnnxInput& input : graph_.inputs) {
      const OnnxBlob& blob = state_.values.at(input.name).blob;
      LayerParameter* layer = net->add_layer();
      layer->set_name(UniqueImportName(blob.name, &state_.layer_names));
      layer->set_type("Input");
      layer->add_top(blob.name);
      auto* shape = layer->mutable_input_param()->add_shape();
      for (const int64_t dim : blob.shape.dims()) shape->add_dim(dim);
    }
  }

  static void AddLayer(ImportedLayer* layer, ImportedNet* result) {
    LayerParameter* added = result->net.add_layer();
    *added = std::move(layer->param);
    for (const OnnxTensor& weights : layer->weights) {
      BlobProto* blob = added->add_blobs();
      for (const int64_t dim : weights.dims) blob->mutable_shape()->add_dim(dim);
      blob->mutable_shape();  // a scalar has one too
      auto* data = blob->mutable_data();
      if (weights.IsFloat()) {
        data->Add(weights.floats->begin(), weights.floats->end());
        continue;
      }
      data->Reserve(static_cast<int>(weights.ints->size()));
      bool exact = true;
      for (const int64_t value : *weights.ints) {
        data->AddAlreadyReserved(static_cast<float>(value));
        exact = exact && value >= -(1 << 24) && value <= (1 << 24);
      }
      if (exact) continue;
      result->notes.push_back(
          StrCat("layer '", added->name(), "' has whole numbers beyond 2^24, which floats round"));
    }
  }

  void AddSilence(NetParameter* net) {
    std::vector<std::string> unread;
    for (const LayerParameter& layer : net->layer()) {
      for (const std::string& top : layer.top()) {
        if (reads_[top] == 0 && !outputs_.contains(top)) unread.push_back(top);
      }
    }
    if (unread.empty()) return;
    LayerParameter* layer = net->add_layer();
    layer->set_name(UniqueImportName("silence", &state_.layer_names));
    layer->set_type("Silence");
    for (const std::string& blob : unread) layer->add_bottom(blob);
  }

  const OnnxGraph& graph_;
  ImportState& state_;
  std::map<std::string, int> reads_;
  std::set<std::string> outputs_;
};

}  // namespace

ImportedNet ImportOnnx(const std::string& path, const ImportOptions& options) {
  OnnxGraph graph = MakeOnnxGraph(ReadOnnxModel(path), path);
  RemoveUnread(&graph);
  const std::map<std::string, Shape> shapes = InputShapes(graph, options).Find();
  const Registry registry = BuiltinRegistry();
  ConvertedGraph converted = ConvertNodes(shapes, registry, &graph);
  if (JoinNodes(converted.state, &graph)) converted = ConvertNodes(shapes, registry, &graph);
  if (!converted.problems.empty()) throw Error(std::move(converted.problems));
  return Assembly(graph, &converted).Make();
}

}  // namespace crema
