#include "onnx/import_convert.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "core/strings.h"
#include "onnx/import_fold.h"
#include "onnx/import_operators.h"
#include "onnx/import_unroll.h"

namespace crema {
namespace {

// Elements that folding may produce in all: this many, and the file's constants a few times.
constexpr int64_t kMostFolded = int64_t{1} << 25;
constexpr int64_t kMostFoldedByGiven = 4;

ConverterTable MakeConverters() {
  ConverterTable table;
  AddMathConverters(&table);
  AddActivationConverters(&table);
  AddMatrixConverters(&table);
  AddConvolutionConverters(&table);
  AddPoolingConverters(&table);
  AddNormalizationConverters(&table);
  AddShapeConverters(&table);
  AddIndexConverters(&table);
  AddReductionConverters(&table);
  AddSamplingConverters(&table);
  AddRecurrentConverters(&table);
  AddAttentionConverters(&table);
  AddQuantizationConverters(&table);
  AddLossConverters(&table);
  AddSignalConverters(&table);
  AddStateConverters(&table);
  return table;
}

FoldTable MakeFolds() {
  FoldTable table;
  AddArithmeticFolds(&table);
  AddMoveFolds(&table);
  return table;
}

OnnxTensor ConstantOf(const NodeImport& node, const std::string& path) {
  for (const onnx::AttributeProto& attribute : node.node().attribute()) {
    const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
    if (attribute.name() == "value") return ReadOnnxTensor(attribute.t(), path);
    if (attribute.name() == "sparse_value") {
      return ReadOnnxSparse(attribute.sparse_tensor(), path);
    }
    if (attribute.name() == "value_float") return MakeFloats({}, {attribute.f()});
    if (attribute.name() == "value_int") return MakeInts({}, {attribute.i()});
    if (attribute.name() == "value_floats") {
      return MakeFloats({count(attribute.floats())},
                        {attribute.floats().begin(), attribute.floats().end()});
    }
    if (attribute.name() == "value_ints") {
      return MakeInts({count(attribute.ints())},
                      {attribute.ints().begin(), attribute.ints().end()});
    }
  }
  node.Refuse("has no value that Crema reads (strings are not supported)");
}

class Pass {
 public:
  Pass(const std::map<std::string, Shape>& shapes, const Registry& registry, OnnxGraph* graph)
      : graph_(*graph), converters_(MakeConverters()), folds_(MakeFolds()) {
    graph->added.clear();  // all constants follow
    result_.state.graph = graph;
    result_.state.registry = &registry;
    for (const auto& [name, tensor] : graph->constants) {
      result_.state.values[name] = {true, {"", Shape(tensor.dims), tensor.type}, &tensor};
    }
    for (const auto& [name, why] : graph->unreadable) result_.state.values[name] = {};
    for (const OnnxInput& input : graph->inputs) {
      const std::string blob = result_.state.blob_names.Add(input.name);
      result_.state.values[input.name] = {true, {blob, shapes.at(input.name), input.type}};
    }
  }

  ConvertedGraph Run() {
    std::deque<OnnxNode> waiting(std::make_move_iterator(graph_.nodes.begin()),
                                 std::make_move_iterator(graph_.nodes.end()));
    graph_.nodes.clear();
    while (!waiting.empty()) {
      OnnxNode node = std::move(waiting.front());
      waiting.pop_front();
      if (node.proto.output_size() == 0) continue;
      why_.clear();
      for (std::string& name : *node.proto.mutable_input()) name = graph_.Resolve(name);
      if (ReportNoOperator(node)) {
        graph_.nodes.push_back(std::move(node));
        continue;
      }
      auto unrolled = Unroll(node);
      if (unrolled) {
        waiting.insert(waiting.begin(), std::make_move_iterator(unrolled->begin()),
                       std::make_move_iterator(unrolled->end()));
        continue;
      }
      if (!Fold(node)) {
        Convert(node);
        graph_.nodes.push_back(std::move(node));
      }
    }
    CheckOutputs();
    return std::move(result_);
  }

 private:
  void CheckOutputs() {
    for (const std::string& output : graph_.outputs) {
      const std::string& name = graph_.Resolve(output);
      const auto value = result_.state.values.find(name);
      std::string why = "is no tensor that can be made";
      if (value != result_.state.values.end() && value->second.known) {
        const OnnxTensor* constant = value->second.constant;
        why = constant == nullptr ? "" : WhyNoFloats(*constant);
        if (why.empty()) continue;
      } else if (value != result_.state.values.end() && !result_.problems.empty()) {
        continue;
      }
      result_.problems.push_back(
          {ErrorCode::kUnsupported, {.file = graph_.path}, StrCat("output '", output, "' ", why)});
    }
  }

  static bool IsOnnx(const onnx::NodeProto& node) { return IsDefaultDomain(node.domain()); }

  bool Known(const onnx::NodeProto& node) const {
    return std::ranges::all_of(node.input(), [&](const std::string& name) {
      if (name.empty()) return true;
      const auto value = result_.state.values.find(name);
      return value != result_.state.values.end() && value->second.known;
    });
  }

  bool Constant(const onnx::NodeProto& node) const {
    return std::ranges::all_of(node.input(), [&](const std::string& name) {
      return name.empty() || result_.state.values.at(name).constant != nullptr;
    });
  }

  // Returns the nodes that a node stands for; nothing: it stays. Reports one that cannot be
  // unrolled.
  std::optional<std::vector<OnnxNode>> Unroll(const OnnxNode& node) {
    if (!IsOnnx(node.proto) && node.proto.domain() != "com.microsoft") return std::nullopt;
    const bool sequence = node.proto.op_type() == "ConcatFromSequence";
    if (!sequence && !Known(node.proto)) return std::nullopt;
    try {
      auto nodes = UnrollNode(node, &sequences_, &result_.state);
      for (const std::string& name : std::exchange(graph_.added, {})) {
        const OnnxTensor& tensor = graph_.constants.at(name);
        result_.state.values[name] = {true, {"", Shape(tensor.dims), tensor.type}, &tensor};
      }
      return nodes;
    } catch (const Error& error) {
      if (!error.problems()[0].where.file.empty()) throw;  // of the file, not of the node alone
      why_ = error.problems()[0].message;
      return std::nullopt;
    }
  }

  // Replaces a node by constants or by another name of its input. Returns false if it remains.
  bool Fold(const OnnxNode& node) {
    if (!IsOnnx(node.proto)) return false;
    const std::string& op = node.proto.op_type();
    bool sequence = true;
    try {
      if (ResolveSequence(node, &sequences_, &result_.state)) return true;
      sequence = false;
      if (!Known(node.proto)) return false;
      NodeImport import(node, &result_.state);
      if (op == "Constant") {
        OnnxTensor value = ConstantOf(import, graph_.path);
        const bool sparse = import.HasAttribute("sparse_value");  // takes few bytes of the file
        (sparse ? graph_.work.folded : graph_.work.given) += value.count();
        if (graph_.work.folded > kMostFolded + kMostFoldedByGiven * graph_.work.given) return false;
        import.Output(0, std::move(value));
        return true;
      }
      if (op == "Identity" && import.Has(0)) return Alias(node.proto);
      if (op == "OptionalGetElement" && import.Has(0)) return Alias(node.proto);  // of a tensor
      if (op == "OptionalHasElement") {
        import.Output(0, MakeInts({}, {import.Has(0) ? 1 : 0}, onnx::TensorProto::BOOL));
        return true;
      }
      if (op == "Dropout" && !import.Wants(1) && IsInference(import)) return Alias(node.proto);
      if (op == "Shape" || op == "Size") RefuseRowsOfRun(import);
      if (op == "Shape") return FoldShape(&import);
      if (op == "CastLike" && import.Constant(0) != nullptr && IsReadable(import.TypeOf(1))) {
        import.Output(0, CastTensor(*import.Constant(0), import.TypeOf(1)));
        return true;
      }
      if (op == "Size") {
        import.Output(0, MakeInts({}, {import.ShapeOf(0).count()}));
        return true;
      }
      return FoldConstants(op, &import);
    } catch (const Error& error) {
      if (!error.problems()[0].where.file.empty() && sequence) throw;
      why_ = error.problems()[0].message;  // the converter, if there is one, reports its own
      return false;
    }
  }

  bool Alias(const onnx::NodeProto& node) {
    if (graph_.Resolve(node.input(0)) == node.output(0)) return false;
    graph_.aliases[node.output(0)] = node.input(0);
    return true;
  }

  // Constants can have this type.
  static bool IsReadable(int type) {
    return IsNumberType(type) && type <= onnx::TensorProto::BFLOAT16;
  }

  static bool IsInference(const NodeImport& node) {
    const OnnxTensor* training = node.Constant(2);
    return !node.Has(2) ||
           (training != nullptr && !training->IsFloat() && (*training->ints)[0] == 0);
  }

  static bool FoldShape(NodeImport* node) {
    const auto dims = node->ShapeOf(0).dims();
    const auto count = static_cast<int64_t>(dims.size());
    const auto place = [&](int64_t value) {
      return std::clamp<int64_t>(value < 0 ? value + count : value, 0, count);
    };
    const int64_t begin = place(node->Int("start", 0));
    const int64_t end = std::max(begin, place(node->Int("end", count)));
    node->Output(0, MakeInts({end - begin}, {dims.begin() + begin, dims.begin() + end}));
    return true;
  }

  void RefuseRowsOfRun(const NodeImport& node) {
    if (!node.Has(0)) return;
    const auto value = result_.state.values.find(node.node().input(0));
    if (!rows_of_run_.contains(value->second.blob.name)) return;
    why_ = "reads a shape that is known only when the net runs";
    node.Refuse(why_);
  }

  // Remembers blobs of the layers from `first` on whose number of rows is known only when the net
  // runs. A Reshape of one keeps the -1 of the file.
  void FollowRowsOfRun(const NodeImport& node, size_t first) {
    for (size_t l = first; l < result_.state.layers.size(); ++l) {
      LayerParameter& layer = result_.state.layers[l].param;
      const bool makes = layer.type() == "NonMaxSuppression" || layer.type() == "Filter";
      const bool reads = std::ranges::any_of(
          layer.bottom(), [&](const std::string& bottom) { return rows_of_run_.contains(bottom); });
      if (!makes && !reads) continue;
      rows_of_run_.insert(layer.top().begin(), layer.top().end());
      if (layer.type() != "Reshape" || node.node().op_type() != "Reshape") continue;
      const std::vector<int64_t> dims = node.IntsOf("shape", 1);
      auto* shape = layer.mutable_reshape_param()->mutable_shape();
      if (shape->dim_size() != static_cast<int>(dims.size())) continue;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == -1) shape->set_dim(static_cast<int>(i), -1);
      }
    }
  }

  bool FoldConstants(const std::string& op, NodeImport* node) {
    const auto fold = folds_.find(op);
    if (fold == folds_.end() || node->inputs() == 0 || !Constant(node->node())) return false;
    OnnxWork& work = graph_.work;
    int64_t most = 0;  // of the elements that it can have
    for (size_t i = 0; i < node->inputs(); ++i) {
      if (node->Has(i)) most += node->Constant(i)->count();
    }
    most = std::max(most, kMostFoldedElements);
    if (work.folded + most > kMostFolded + kMostFoldedByGiven * work.given) return false;
    std::vector<OnnxTensor> outputs = fold->second(*node);
    if (outputs.empty()) return false;
    for (const OnnxTensor& output : outputs) work.folded += output.count();
    for (size_t i = 0; i < outputs.size(); ++i) node->Output(i, std::move(outputs[i]));
    return true;
  }

  void ForgetOutputs(const OnnxNode& node) {
    for (const auto& output : node.proto.output()) {
      if (!output.empty()) result_.state.values[output] = {};
    }
  }

  // Reports a node that breaks the rules of its operator. Returns true if it does.
  bool ReportNoOperator(const OnnxNode& node) {
    if (node.made || !IsOnnx(node.proto)) return false;
    std::vector<int> types;
    for (const std::string& name : node.proto.input()) {
      const auto value = result_.state.values.find(name);
      const bool known = value != result_.state.values.end() && value->second.known;
      types.push_back(known ? value->second.blob.type : 0);
    }
    const std::string why = WhyNoOperator(node, types);
    if (why.empty()) return false;
    ForgetOutputs(node);
    Report(node, {{ErrorCode::kUnsupported, {}, why}});
    return true;
  }

  void Convert(const OnnxNode& node) {
    ForgetOutputs(node);
    for (const std::string& name : node.proto.input()) {
      const auto unreadable = graph_.unreadable.find(name);
      if (unreadable == graph_.unreadable.end()) continue;
      return Report(node, {{ErrorCode::kUnsupported, {}, unreadable->second}});
    }
    NodeImport import(node, &result_.state);
    const auto converter =
        IsOnnx(node.proto) ? converters_.find(node.proto.op_type()) : converters_.end();
    if (converter == converters_.end()) {
      return Report(node, {{ErrorCode::kUnsupported, {}, WhyUnknown(node.proto)}});
    }
    if (!Known(node.proto)) return;  // its own inputs are reported
    try {
      const size_t first = result_.state.layers.size();
      converter->second(import);
      import.Finish();
      FollowRowsOfRun(import, first);
    } catch (const Error& error) {
      import.Undo();
      ForgetOutputs(node);
      Report(node, error.problems());
    }
  }

  std::string WhyUnknown(const onnx::NodeProto& node) const {
    if (node.domain() == "ai.onnx.preview.training") {
      return "is an operator of training; import the net that it trains, without it";
    }
    if (!IsOnnx(node)) return "is of a domain that Crema does not read";
    if (!Known(node)) return "reads a value that cannot be made";
    if (!why_.empty()) return why_;
    if (node.op_type() == "Loop" || node.op_type() == "Scan") return "is control flow";
    if (!folds_.contains(node.op_type()) && node.op_type() != "Constant")
      return "is an operator that Crema does not read";
    for (int i = 0; i < node.input_size(); ++i) {
      const std::string& name = node.input(i);
      if (name.empty() || result_.state.values.at(name).constant != nullptr) continue;
      return StrCat("is computed on constants alone, but its input ", i, " ('", name,
                    "') is known only when the net runs");
    }
    return StrCat("is computed on constants alone, to ", kMostFoldedElements,
                  " elements and in all to 4 times those of the file and ", kMostFolded);
  }

  void Report(const OnnxNode& node, const std::vector<Problem>& problems) {
    std::string why;
    for (const Problem& problem : problems) {
      if (!why.empty()) why += "; ";
      if (!problem.where.field.empty()) why += StrCat(problem.where.field, ": ");
      why += problem.message;
    }
    std::vector<std::string> inputs;
    for (const std::string& name : node.proto.input()) {
      const auto value = result_.state.values.find(name);
      const bool known = value != result_.state.values.end() && value->second.known;
      inputs.push_back(name.empty() ? "none"
                       : known      ? StrCat(OnnxTypeName(value->second.blob.type), " ",
                                             ToString(value->second.blob.shape))
                                    : std::string("unknown"));
    }
    const ErrorCode code = problems[0].code;
    result_.problems.push_back({code == ErrorCode::kInternal ? code : ErrorCode::kUnsupported,
                                {.file = graph_.path},
                                StrCat(DescribeNode(node.proto), " of opset ", node.opset,
                                       " with inputs (", Join(inputs, ", "), "): ", why)});
  }

  OnnxGraph& graph_;
  const ConverterTable converters_;
  const FoldTable folds_;
  ConvertedGraph result_;
  OnnxSequences sequences_;
  std::set<std::string> rows_of_run_;  // blobs
  std::string why_;                    // the node at hand cannot be unrolled
};

}  // namespace

ConvertedGraph ConvertNodes(const std::map<std::string, Shape>& shapes, const Registry& registry,
                            OnnxGraph* graph) {
  return Pass(shapes, registry, graph).Run();
}

}  // namespace crema
