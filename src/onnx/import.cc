#include "onnx/import.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/strings.h"
#include "onnx/import_convert.h"
#include "onnx/import_dialect.h"
#include "onnx/import_graph.h"
#include "onnx/import_int8.h"
#include "onnx/import_join.h"
#include "onnx/import_metadata.h"
#include "onnx/import_sizes.h"

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
        for (Problem problem : error.problems()) {
          if (problem.where.file.empty()) {
            problem.where.file = graph_.path;
            problem.message = StrCat("input '", input.name, "': ", problem.message);
          }
          problems_.push_back(std::move(problem));
        }
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
      const std::string kind =
          input.type == 0 ? "no tensor" : StrCat("of ", OnnxTypeName(input.type));
      Refuse(input, StrCat("is ", kind, ", which ", ReaderOf(input), " reads; Crema takes tensors ",
                           "of numbers and booleans"));
    }
    const auto given = options_.shapes.find(input.name);
    if (given != options_.shapes.end()) return Checked(input, given->second);
    const Shape* array = ArrayOf(input);
    if (array != nullptr && array->count() > 0 && Fits(input, *array)) return *array;
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

  // Describes the first node that reads an input.
  std::string ReaderOf(const OnnxInput& input) const {
    const auto reader = std::ranges::find_if(graph_.nodes, [&](const OnnxNode& node) {
      return std::ranges::count(node.proto.input(), input.name) > 0;
    });
    return reader == graph_.nodes.end() ? "no node" : DescribeNode(reader->proto);
  }

  // Returns the shape of the array for an input, or null.
  const Shape* ArrayOf(const OnnxInput& input) const {
    auto found = options_.arrays.find(input.name);
    if (found == options_.arrays.end() && graph_.inputs.size() == 1) {
      found = options_.arrays.find("");
    }
    return found == options_.arrays.end() ? nullptr : &found->second;
  }

  static bool Fits(const OnnxInput& input, const Shape& shape) {
    bool fits = !input.has_shape || shape.axes() == static_cast<int>(input.dims.size());
    for (int i = 0; fits && input.has_shape && i < shape.axes(); ++i) {
      const int64_t dim = input.dims[static_cast<size_t>(i)];
      fits = dim < 0 || dim == shape[i];
    }
    return fits;
  }

  Shape Checked(const OnnxInput& input, const Shape& shape) const {
    if (!Fits(input, shape)) {
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
  Assembly(OnnxGraph* graph, ConvertedGraph* converted)
      : graph_(*graph), state_(converted->state) {}

  // Completes the layers, but for the inputs and silence.
  void Arrange() {
    for (const OnnxInput& input : graph_.inputs) inputs_.insert(input.name);
    CountReads();
    RemoveUnreadLayers();
    for (const std::string& output : graph_.outputs) AddOutput(output);
    Rename();
    for (ImportedLayer& layer : copies_) state_.layers.push_back(std::move(layer));
    CountReads();
  }

  // Returns a text that is equal for equal layers. Values of `source`, which conversions share, are
  // compared by their addresses, others by a hash.
  std::string Layers(const OnnxGraph& source) const {
    std::set<const void*> shared;
    for (const auto& [name, constant] : source.constants) shared.insert(AddressOf(constant));
    std::string text;
    for (const ImportedLayer& layer : state_.layers) {
      const std::string param = layer.param.SerializeAsString();
      text += StrCat(param.size(), ":", param);
      for (const OnnxTensor& weights : layer.weights) {
        const void* address = AddressOf(weights);
        const bool is_shared = shared.contains(address);
        text += StrCat(ToString(Shape(weights.dims)), is_shared ? " at " : " of ",
                       is_shared ? reinterpret_cast<uintptr_t>(address) : HashOf(weights), ";");
      }
    }
    return text;
  }

  // Requires: Arrange.
  ImportedNet Make() {
    ImportedNet result;
    result.net.set_name(graph_.name.empty() ? std::filesystem::path(graph_.path).stem().string()
                                            : graph_.name);
    AddInputs(&result.net);
    graph_.constants.clear();  // so that weights are in memory once, but for those of one layer
    for (ImportedLayer& layer : state_.layers) AddLayer(&layer, &result.net);
    AddSilence(&result.net);
    for (const auto& [name, type] : types_) {
      if (!IsFloatType(type)) result.types[name] = OnnxTypeName(type);
    }
    result.notes.insert(result.notes.begin(), state_.notes.begin(), state_.notes.end());
    return result;
  }

 private:
  static const void* AddressOf(const OnnxTensor& tensor) {
    return tensor.IsFloat() ? static_cast<const void*>(tensor.floats.get()) : tensor.ints.get();
  }

  static uintptr_t HashOf(const OnnxTensor& tensor) {
    const auto hash = [](const auto& values) {
      const auto* bytes = reinterpret_cast<const char*>(values.data());
      return std::hash<std::string_view>()({bytes, values.size() * sizeof(values[0])});
    };
    return tensor.IsFloat() ? hash(*tensor.floats) : hash(*tensor.ints);
  }

  void CountReads() {
    reads_.clear();
    for (const ImportedLayer& layer : state_.layers) {
      for (const std::string& bottom : layer.param.bottom()) ++reads_[bottom];
    }
  }

  // Adds a layer whose top is the blob under the name of the output.
  void Copy(const OnnxBlob& from, const std::string& name) {
    ImportedLayer layer;
    layer.param.set_name(state_.layer_names.Add(name));
    layer.param.set_type("Reshape");
    layer.param.add_bottom(from.name);
    layer.param.add_top(name);
    auto* shape = layer.param.mutable_reshape_param()->mutable_shape();
    for (int i = 0; i < from.shape.axes(); ++i) shape->add_dim(0);
    copies_.push_back(std::move(layer));
  }

  void AddConstantOutput(const OnnxValue& value, const std::string& name) {
    ImportedLayer layer;
    layer.param.set_name(state_.layer_names.Add(name));
    layer.param.set_type("Parameter");
    layer.param.add_top(name);
    auto* shape = layer.param.mutable_parameter_param()->mutable_shape();
    for (const int64_t dim : value.constant->dims) shape->add_dim(dim);
    layer.weights.push_back(*value.constant);
    copies_.push_back(std::move(layer));
  }

  // Gives blobs whose names outputs take other ones.
  void Rename() {
    const auto rename = [&](std::string* blob) {
      const auto found = renamed_.find(*blob);
      if (found != renamed_.end()) *blob = found->second;
    };
    for (ImportedLayer& layer : state_.layers) {
      for (auto& bottom : *layer.param.mutable_bottom()) rename(&bottom);
      for (auto& top : *layer.param.mutable_top()) rename(&top);
    }
    for (ImportedLayer& layer : copies_) {
      for (auto& bottom : *layer.param.mutable_bottom()) rename(&bottom);
    }
  }

  // Returns true if a layer makes the blob after those of earlier outputs: outputs keep their
  // order.
  bool KeepsOrder(const std::string& blob) {
    if (!copies_.empty()) return false;  // which follow the layers
    for (size_t i = 0; i < state_.layers.size(); ++i) {
      const auto& tops = state_.layers[i].param.top();
      const auto top = std::ranges::find(tops, blob);
      if (top == tops.end()) continue;
      const std::pair place(i, std::distance(tops.begin(), top));
      if (last_output_ && place < *last_output_) return false;
      last_output_ = place;
      return true;
    }
    return false;
  }

  // A blob that layers or other outputs read too, that is an input, or that an earlier layer makes
  // than the outputs before it, is copied for an output.
  void AddOutput(const std::string& output) {
    const OnnxValue& value = state_.values.at(graph_.Resolve(output));
    if (outputs_.contains(output)) return;  // listed twice
    types_[output] = value.blob.type;
    const bool input = inputs_.contains(output);
    const bool own = value.blob.name == output && !input;
    const std::string& blob = value.blob.name;
    const bool sole = reads_[blob] == 0 && reads_by_outputs_[blob] == 1 && KeepsOrder(blob);
    if (own && sole) {
      outputs_.insert(output);
      return;
    }
    if (!own && !blob.empty() && sole && !inputs_.contains(blob) && !input) {
      renamed_[blob] = output;
      outputs_.insert(output);
      return;
    }
    if (own) renamed_[output] = state_.blob_names.Add(StrCat(output, "/inner"), &graph_.names);
    const std::string name = input ? state_.blob_names.Add(output) : output;
    types_[name] = value.blob.type;
    outputs_.insert(name);
    if (value.blob.name.empty()) return AddConstantOutput(value, name);
    Copy(value.blob, name);
  }

  // Removes layers, from the last on, whose tops nothing reads.
  void RemoveUnreadLayers() {
    for (const std::string& output : graph_.outputs) {
      ++reads_by_outputs_[state_.values.at(graph_.Resolve(output)).blob.name];
    }
    std::vector<ImportedLayer> kept;
    for (auto layer = state_.layers.rbegin(); layer != state_.layers.rend(); ++layer) {
      const bool used = std::ranges::any_of(layer->param.top(), [&](const std::string& top) {
        return reads_[top] > 0 || reads_by_outputs_.contains(top);
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
      layer->set_name(state_.layer_names.Add(blob.name));
      layer->set_type("Input");
      layer->add_top(blob.name);
      types_[blob.name] = input.type;
      auto* shape = layer->mutable_input_param()->add_shape();
      for (const int64_t dim : blob.shape.dims()) shape->add_dim(dim);
    }
  }

  static void AddLayer(ImportedLayer* layer, NetParameter* net) {
    LayerParameter* added = net->add_layer();
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
      for (const int64_t value : *weights.ints) {
        data->AddAlreadyReserved(static_cast<float>(value));
      }
    }
    layer->weights.clear();
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
    layer->set_name(state_.layer_names.Add("silence"));
    layer->set_type("Silence");
    for (const std::string& blob : unread) layer->add_bottom(blob);
  }

  OnnxGraph& graph_;
  ImportState& state_;
  std::map<std::string, int> reads_;             // by layers
  std::map<std::string, int> reads_by_outputs_;  // outputs that are the blob
  std::set<std::string> inputs_;
  std::set<std::string> outputs_;
  std::map<std::string, std::string> renamed_;
  std::map<std::string, int> types_;                              // of inputs and outputs
  std::optional<std::pair<size_t, std::ptrdiff_t>> last_output_;  // layer and top
  std::vector<ImportedLayer> copies_;
};

// An input without elements is a constant: nets have no inputs without elements.
std::vector<std::string> FoldEmptyInputs(std::map<std::string, Shape>* shapes, OnnxGraph* graph) {
  std::vector<std::string> notes;
  for (const OnnxInput& input : graph->inputs) {
    const Shape& shape = shapes->at(input.name);
    if (shape.count() > 0) continue;
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    graph->constants[input.name] = IsFloatType(input.type)
                                       ? MakeFloats(std::move(dims), {}, input.type)
                                       : MakeInts(std::move(dims), {}, input.type);
    notes.push_back(StrCat("input '", input.name, "' has no elements: it is no input of the net"));
    shapes->erase(input.name);
  }
  std::erase_if(graph->inputs,
                [&](const OnnxInput& input) { return !shapes->contains(input.name); });
  return notes;
}

ConvertedGraph ConvertGraph(const std::map<std::string, Shape>& shapes, const Registry& registry,
                            OnnxGraph* graph) {
  ConvertedGraph converted = ConvertNodes(shapes, registry, graph);
  if (JoinNodes(converted.state, graph)) converted = ConvertNodes(shapes, registry, graph);
  return converted;
}

// Returns the axes of the inputs that must keep their sizes, since the layers depend on them.
// `graph` is as it was before it was converted to the layers.
std::vector<FixedAxis> FixedAxesOf(const OnnxGraph& graph,
                                   const std::map<std::string, Shape>& shapes,
                                   const Registry& registry, const std::string& layers) {
  const auto layers_of =
      [&](const std::map<std::string, Shape>& others) -> std::optional<std::string> {
    OnnxGraph copy = graph;
    ConvertedGraph converted = ConvertGraph(others, registry, &copy);
    if (!converted.problems.empty()) return std::nullopt;
    Assembly assembly(&copy, &converted);
    assembly.Arrange();
    return assembly.Layers(graph);
  };
  return FindFixedAxes(graph, shapes, layers, layers_of);
}

// Parts of a file that do not depend on the shapes of its inputs.
struct OnnxContent {
  ModelCard card;
  std::vector<std::string> notes;
  OnnxGraph graph;
};

OnnxContent ReadContent(const std::string& path) {
  OnnxContent content;
  onnx::ModelProto model = ReadOnnxModel(path);
  content.card = ReadMetadata(model, &content.notes);
  content.graph = MakeOnnxGraph(std::move(model), path);
  RemoveUnread(&content.graph);
  return content;
}

ImportedNet ImportGraph(OnnxContent content, const ImportOptions& options) {
  OnnxGraph& graph = content.graph;
  std::map<std::string, Shape> shapes = InputShapes(graph, options).Find();
  const std::vector<std::string> notes = FoldEmptyInputs(&shapes, &graph);
  const Registry registry = BuiltinRegistry();
  OnnxGraph source;
  if (MayDependOnSizes(graph)) source = graph;
  ConvertedGraph converted = ConvertGraph(shapes, registry, &graph);
  if (!converted.problems.empty()) throw Error(std::move(converted.problems));
  Assembly assembly(&graph, &converted);
  assembly.Arrange();
  const std::vector<FixedAxis> fixed =
      source.inputs.empty() ? std::vector<FixedAxis>()
                            : FixedAxesOf(source, shapes, registry, assembly.Layers(source));
  source = {};
  ImportedNet imported = assembly.Make();
  imported.notes.insert(imported.notes.begin(), notes.begin(), notes.end());
  imported.notes.insert(imported.notes.begin(), content.notes.begin(), content.notes.end());
  imported.card = std::move(content.card);
  for (const FixedAxis& axis : fixed) {
    imported.notes.push_back(StrCat("input '", axis.input, "': axis ", axis.axis, " stays ",
                                    axis.size, ", since layers depend on it; import with another ",
                                    "--shape for other sizes"));
  }
  if (options.int8 && options.dialect.empty()) UseInt8(&imported.net);
  FixAxes(fixed, &imported.net);
  if (imported.net.precision() == INT8) {
    imported.notes.emplace_back(
        "products of quantized values compute on bytes (precision: INT8 in the net)");
  }
  return imported;
}

// Attributes and paths in the file may hold anything, and any amount of it.
Error Shown(const Error& error) {
  constexpr size_t kMostBytes = 2048;
  constexpr size_t kMostProblems = 4096;
  std::vector<Problem> problems = error.problems();
  const size_t count = problems.size();
  problems.resize(std::min(count, kMostProblems));
  for (Problem& problem : problems) problem.message = Printable(problem.message, kMostBytes);
  if (count > kMostProblems) {
    problems.push_back({error.code(),
                        {.file = problems[0].where.file},
                        StrCat("and ", count - kMostProblems, " more")});
  }
  return Error(std::move(problems));
}

}  // namespace

ImportedNet ImportOnnx(const std::string& path, const ImportOptions& options) {
  std::optional<CaffeDialect> dialect;
  if (!options.dialect.empty()) dialect = ParseCaffeDialect(options.dialect);
  try {
    ImportedNet imported = ImportGraph(ReadContent(path), options);
    if (dialect) ConvertToDialect(*dialect, path, &imported.net);
    return imported;
  } catch (const Error& error) {
    throw Shown(error);
  }
}

std::function<NetFile(const Shape& input)> OpenOnnxNet(const std::string& path) {
  try {
    const auto content = std::make_shared<const OnnxContent>(ReadContent(path));
    return [content](const Shape& input) {
      ImportOptions options;
      options.arrays[""] = input;
      NetFile file;
      try {
        file.net = ImportGraph(*content, options).net;
      } catch (const Error& error) {
        throw Shown(error);
      }
      return file;
    };
  } catch (const Error& error) {
    throw Shown(error);
  }
}

}  // namespace crema
