#include "onnx/import_node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::AttributeProto;

Shape ShapeOfDims(const std::vector<int64_t>& dims) { return Shape(dims); }

}  // namespace

NodeImport::NodeImport(const OnnxNode& node, ImportState* state)
    : node_(node), state_(*state), first_layer_(state->layers.size()) {}

void NodeImport::Refuse(const std::string& why) const { Fail(ErrorCode::kUnsupported, why); }

bool NodeImport::Has(size_t input) const {
  return input < inputs() && !node_.proto.input(static_cast<int>(input)).empty();
}

const OnnxValue& NodeImport::ValueOf(size_t input) const {
  if (!Has(input)) Refuse(StrCat("has no input ", input));
  const auto value =
      state_.values.find(state_.graph->Resolve(node_.proto.input(static_cast<int>(input))));
  if (value == state_.values.end() || !value->second.known) {
    Refuse(StrCat("has an unknown input ", input));
  }
  return value->second;
}

const OnnxTensor* NodeImport::Constant(size_t input) const {
  return Has(input) ? ValueOf(input).constant : nullptr;
}

OnnxBlob NodeImport::In(size_t input) {
  const OnnxValue& value = ValueOf(input);
  RequireFloats(input);
  if (!value.blob.name.empty()) return value.blob;
  const std::string& name = state_.graph->Resolve(node_.proto.input(static_cast<int>(input)));
  OnnxValue& constant = state_.values.at(name);
  ImportedLayer layer;
  constant.blob.name = state_.blob_names.Add(name);
  layer.param.set_name(state_.layer_names.Add(constant.blob.name));
  layer.param.set_type("Parameter");
  layer.param.add_top(constant.blob.name);
  auto* shape = layer.param.mutable_parameter_param()->mutable_shape();
  for (const int64_t dim : constant.constant->dims) shape->add_dim(dim);
  layer.weights.push_back(*constant.constant);
  // Before the layers of this node, which may be undone.
  state_.layers.insert(state_.layers.begin() + static_cast<std::ptrdiff_t>(first_layer_),
                       std::move(layer));
  ++first_layer_;
  return constant.blob;
}

const OnnxTensor& NodeImport::Weights(size_t input, std::string_view what) const {
  const OnnxTensor* constant = Constant(input);
  if (constant != nullptr) return *constant;
  if (!Has(input)) Refuse(StrCat("has no ", what, " (input ", input, ")"));
  Refuse(StrCat("its ", what, " (input ", input, ", '", node_.proto.input(static_cast<int>(input)),
                "') must be constant"));
}

std::vector<int64_t> NodeImport::Ints(size_t input, std::string_view what) const {
  const OnnxTensor& tensor = Weights(input, what);
  if (tensor.IsFloat()) Refuse(StrCat("its ", what, " are no whole numbers"));
  return *tensor.ints;
}

std::vector<float> NodeImport::Floats(size_t input, std::string_view what) const {
  const OnnxTensor& tensor = Weights(input, what);
  if (tensor.IsFloat()) return *tensor.floats;
  RequireFloats(input);
  return {tensor.ints->begin(), tensor.ints->end()};
}

void NodeImport::RequireFloats(size_t input) const {
  static constexpr std::string_view kComparesOrMoves[] = {
      "Clip", "Concat", "Equal",       "Expand", "Greater", "GreaterOrEqual",
      "Less", "Max",    "LessOrEqual", "Min",    "Pad",     "Where"};
  const std::string& op = node_.proto.op_type();
  const OnnxTensor* constant = Constant(input);
  // These give floats, which may round.
  const bool rounds =
      op == "DequantizeLinear" || (op == "Cast" && IsFloatType(static_cast<int>(Int("to", 0))));
  if (constant == nullptr || rounds) return;
  const std::string why =
      WhyNoFloats(*constant, std::ranges::find(kComparesOrMoves, op) != std::end(kComparesOrMoves));
  if (why.empty()) return;
  Refuse(StrCat("its constant '", node_.proto.input(static_cast<int>(input)), "' ", why));
}

bool NodeImport::HasAttribute(std::string_view name) const {
  return FindAttribute(node_.proto, name) != nullptr;
}

const AttributeProto* NodeImport::Attribute(std::string_view name,
                                            AttributeProto::AttributeType type) const {
  const AttributeProto* attribute = FindAttribute(node_.proto, name);
  if (attribute == nullptr) return nullptr;
  if (attribute->type() != AttributeProto::UNDEFINED && attribute->type() != type) {
    Refuse(StrCat("attribute ", name, " is of another type than expected"));
  }
  return attribute;
}

int64_t NodeImport::Int(std::string_view name, int64_t fallback) const {
  const AttributeProto* attribute = Attribute(name, AttributeProto::INT);
  return attribute == nullptr ? fallback : attribute->i();
}

float NodeImport::Float(std::string_view name, float fallback) const {
  const AttributeProto* attribute = Attribute(name, AttributeProto::FLOAT);
  return attribute == nullptr ? fallback : attribute->f();
}

std::string NodeImport::String(std::string_view name, std::string_view fallback) const {
  const AttributeProto* attribute = Attribute(name, AttributeProto::STRING);
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

std::string NodeImport::Choice(std::string_view name,
                               const std::vector<std::string>& values) const {
  const std::string value = String(name, values[0]);
  if (value.empty()) return values[0];
  if (std::ranges::find(values, value) == values.end()) {
    Refuse(StrCat(name, " is '", value, "', not one of: ", Join(values, " ")));
  }
  return value;
}

int64_t NodeImport::RequiredInt(std::string_view name) const {
  if (!HasAttribute(name)) Refuse(StrCat("has no attribute ", name));
  return Int(name, 0);
}

std::vector<int64_t> NodeImport::IntList(std::string_view name) const {
  const AttributeProto* attribute = Attribute(name, AttributeProto::INTS);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<float> NodeImport::FloatList(std::string_view name) const {
  const AttributeProto* attribute = Attribute(name, AttributeProto::FLOATS);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<int64_t> NodeImport::IntsOf(std::string_view attribute, size_t input) const {
  if (HasAttribute(attribute)) return IntList(attribute);
  return Has(input) ? Ints(input, attribute) : std::vector<int64_t>{};
}

std::vector<OnnxBlob> NodeImport::AddAll(const std::string& type,
                                         const std::vector<OnnxBlob>& bottoms, size_t tops,
                                         const SetLayer& set, std::vector<OnnxTensor> weights) {
  const LayerType* layer_type = state_.registry->Find(type);
  if (layer_type == nullptr) Refuse(StrCat("needs the layer type ", type));
  ImportedLayer layer;
  layer.param.set_type(type);
  std::vector<BlobSpec> inputs;
  for (const OnnxBlob& bottom : bottoms) {
    layer.param.add_bottom(bottom.name);
    inputs.push_back({bottom.shape});
  }
  if (set) set(&layer.param);
  const auto name = [&] {
    for (int i = 0; i < node_.proto.output_size(); ++i) {
      if (!node_.proto.output(i).empty()) return node_.proto.output(i);
    }
    return node_.proto.name();
  }();
  const int bottom_count = static_cast<int>(bottoms.size());
  const int top_count = static_cast<int>(tops);
  if (bottom_count < layer_type->inputs.min || bottom_count > layer_type->inputs.max ||
      top_count < layer_type->outputs.min || top_count > layer_type->outputs.max) {
    Refuse(StrCat(type, " takes another number of inputs or outputs"));
  }
  layer.param.set_name(name);
  const std::unique_ptr<const Layer> made = layer_type->make(layer.param);
  const LayerInfo info =
      made->Infer({.phase = TEST, .inputs = inputs, .output_count = tops, .dtype = DType::kF32});
  if (info.parameters.size() != weights.size()) {
    Refuse(StrCat(type, " has ", info.parameters.size(), " parameters, not ", weights.size()));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Shape given = ShapeOfDims(weights[i].dims);
    if (given == info.parameters[i].shape) continue;
    Refuse(StrCat("its ", info.parameters[i].role, " is ", ToString(given), " where ", type,
                  " takes ", ToString(info.parameters[i].shape)));
  }
  std::vector<OnnxBlob> blobs;
  for (const BlobSpec& output : info.outputs) {
    OnnxBlob blob{state_.blob_names.Add(StrCat(name, "/", type), &state_.graph->names),
                  output.shape, bottoms.empty() ? onnx::TensorProto::FLOAT : bottoms[0].type};
    layer.param.add_top(blob.name);
    tops_.insert(blob.name);
    blobs.push_back(std::move(blob));
  }
  layer.weights = std::move(weights);
  state_.layers.push_back(std::move(layer));
  return blobs;
}

OnnxBlob NodeImport::Add(const std::string& type, const std::vector<OnnxBlob>& bottoms,
                         const SetLayer& set, std::vector<OnnxTensor> weights) {
  return AddAll(type, bottoms, 1, set, std::move(weights))[0];
}

void NodeImport::SetMoved(const OnnxBlob& blob, MovedBlob moved) {
  state_.moved[blob.name] = std::move(moved);
  moved_.push_back(blob.name);
}

const MovedBlob* NodeImport::Moved(const OnnxBlob& blob) const {
  const auto found = state_.moved.find(blob.name);
  return found == state_.moved.end() ? nullptr : &found->second;
}

void NodeImport::SetCut(const OnnxBlob& blob, CutOfBlob cut) {
  state_.cuts[blob.name] = std::move(cut);
  moved_.push_back(blob.name);
}

const CutOfBlob* NodeImport::Cut(const OnnxBlob& blob) const {
  const auto found = state_.cuts.find(blob.name);
  return found == state_.cuts.end() ? nullptr : &found->second;
}

OnnxBlob NodeImport::AddConstant(const OnnxTensor& tensor) {
  const std::string why = WhyNoFloats(tensor);
  if (!why.empty()) Refuse(StrCat("needs a constant that ", why));
  return WithType(Add("Parameter", {},
                      [&](LayerParameter* layer) {
                        auto* shape = layer->mutable_parameter_param()->mutable_shape();
                        for (const int64_t dim : tensor.dims) shape->add_dim(dim);
                      },
                      {tensor}),
                  tensor.type);
}

bool NodeImport::Wants(size_t output) const {
  return output < outputs() && !node_.proto.output(static_cast<int>(output)).empty();
}

OnnxBlob NodeImport::Checked(const OnnxBlob& computed) { return Add("CheckWhole", {computed}); }

OnnxBlob NodeImport::Unchecked(OnnxBlob blob) const {
  const auto found = state_.unchecked.find(blob.name);
  if (found != state_.unchecked.end()) blob.name = found->second;
  return blob;
}

bool NodeImport::MayRound(int type) const {
  static constexpr std::string_view kComputes[] = {
      "Abs",         "Add",        "Col2Im",        "CumProd",
      "ConvInteger", "CumSum",     "Div",           "Einsum",
      "Gemm",        "MatMul",     "MatMulInteger", "Mod",
      "Mul",         "Neg",        "PRelu",         "Pow",
      "ReduceL1",    "ReduceL2",   "ReduceLogSum",  "ReduceLogSumExp",
      "ReduceMean",  "ReduceProd", "ReduceSum",     "ReduceSumSquare",
      "Sub"};
  const std::string& op = node_.proto.op_type();
  if (IsFloatType(type) || type == onnx::TensorProto::BOOL || BitsOf(type) < 32) return false;
  if (op.starts_with("Scatter")) {
    const std::string reduction = String("reduction", "none");
    return reduction == "add" || reduction == "mul";
  }
  return std::ranges::find(kComputes, op) != std::end(kComputes) ||
         (op.starts_with("Cast") && TypeOf(0) == onnx::TensorProto::DOUBLE);
}

void NodeImport::Output(size_t output, const OnnxBlob& computed) {
  if (!Wants(output)) return;
  const std::string& name = node_.proto.output(static_cast<int>(output));
  const bool checked = MayRound(computed.type);
  OnnxBlob raw = computed;
  // Before it wraps, too: a rounded number is small again after that.
  if (checked && !IsSignedType(raw.type)) raw = WrappedBlob(*this, Checked(raw), raw.type);
  const OnnxBlob blob = checked ? Checked(raw) : raw;
  OnnxValue& value = state_.values[name];
  value = {true, blob, nullptr};
  if (!tops_.contains(blob.name)) return;
  const auto [place, fresh] = renamed_.emplace(blob.name, "");
  if (fresh) place->second = state_.blob_names.Add(name);
  value.blob.name = place->second;
  if (checked) state_.unchecked[value.blob.name] = raw.name;
}

void NodeImport::Output(size_t output, OnnxTensor constant) {
  if (!Wants(output)) return;
  const std::string& name = node_.proto.output(static_cast<int>(output));
  OnnxTensor& stored = state_.graph->constants[name];
  stored = std::move(constant);
  OnnxValue& value = state_.values[name];
  value = {true, {"", ShapeOfDims(stored.dims), stored.type}, &stored};
}

void NodeImport::Note(const std::string& text) {
  state_.notes.push_back(StrCat(DescribeNode(node_.proto), ": ", text));
}

void NodeImport::Undo() {
  for (const std::string& top : tops_) {
    state_.blob_names.Remove(top);
    state_.moved.erase(top);
    state_.cuts.erase(top);
  }
  tops_.clear();
  for (const auto& [own, final_name] : renamed_) state_.blob_names.Remove(final_name);
  state_.layers.resize(first_layer_);
}

void NodeImport::Finish() {
  const std::string base =
      node_.proto.name().empty() && outputs() > 0 ? node_.proto.output(0) : node_.proto.name();
  const auto rename = [&](std::string* name) {
    const auto found = renamed_.find(*name);
    if (found != renamed_.end()) *name = found->second;
  };
  for (const auto& [own, final_name] : renamed_) state_.blob_names.Remove(own);
  const auto rename_in = [&](auto* entries, const std::string& own) {
    auto entry = entries->extract(own);
    if (entry.empty()) return;
    rename(&entry.key());
    rename(&entry.mapped().source.name);
    entries->insert(std::move(entry));
  };
  for (const std::string& own : moved_) {
    rename_in(&state_.moved, own);
    rename_in(&state_.cuts, own);
  }
  for (size_t i = first_layer_; i < state_.layers.size(); ++i) {
    LayerParameter& layer = state_.layers[i].param;
    for (auto& bottom : *layer.mutable_bottom()) rename(&bottom);
    for (auto& top : *layer.mutable_top()) rename(&top);
    const bool last = i + 1 == state_.layers.size();
    layer.set_name(state_.layer_names.Add(last ? base : StrCat(base, "/", layer.type())));
  }
}

}  // namespace crema
