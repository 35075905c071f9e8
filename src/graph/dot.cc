#include "graph/dot.h"

#include <map>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

// Light colours, so that black text stays readable.
std::string ColourOf(const LayerType& type) {
  static const std::map<std::string, std::string> kColours = {
      {"input", "#d9d9d9"},      {"convolution", "#9ecae1"}, {"pooling", "#fdd0a2"},
      {"arithmetic", "#c7e9c0"}, {"activation", "#fcbba1"},  {"normalization", "#dadaeb"},
      {"loss", "#fb9a99"},       {"metric", "#ffffb3"},      {"shape", "#f0f0f0"},
      {"recurrent", "#bcbddc"},  {"attention", "#bcbddc"},   {"detection", "#fee391"},
      {"sampling", "#ccebc5"},
  };
  const auto found = kColours.find(type.category);
  return found == kColours.end() ? "#ffffff" : found->second;
}

uint32_t First(const google::protobuf::RepeatedField<uint32_t>& list, uint32_t one_axis,
               uint32_t fallback) {
  if (list.size() > 0) return list.Get(0);
  return one_axis > 0 ? one_axis : fallback;
}

// Returns the main parameters of a layer: "3x3 / 2, 64 outputs".
std::string Brief(const LayerParameter& layer) {
  if (layer.has_convolution_param()) {
    const ConvolutionParameter& p = layer.convolution_param();
    const uint32_t kernel = First(p.kernel_size(), 0, 0);
    std::string text = StrCat(kernel > 0 ? kernel : p.kernel_h(), "x",
                              kernel > 0 ? kernel : p.kernel_w(), ", ", p.num_output(), " outputs");
    const uint32_t stride = First(p.stride(), p.stride_h(), 1);
    if (stride > 1) text += StrCat(", stride ", stride);
    if (p.group() > 1) text += StrCat(", ", p.group(), " groups");
    return text;
  }
  if (layer.has_pooling_param()) {
    const PoolingParameter& p = layer.pooling_param();
    const std::string& method = PoolingParameter::PoolMethod_Name(p.pool());
    if (p.global_pooling()) return method + ", whole plane";
    return StrCat(method, " ", p.has_kernel_size() ? p.kernel_size() : p.kernel_h(), "x",
                  p.has_kernel_size() ? p.kernel_size() : p.kernel_w(), ", stride ",
                  p.has_stride_h() ? p.stride_h() : p.stride());
  }
  if (layer.has_inner_product_param()) {
    return StrCat(layer.inner_product_param().num_output(), " outputs");
  }
  if (layer.has_eltwise_param()) {
    return EltwiseParameter::EltwiseOp_Name(layer.eltwise_param().operation());
  }
  if (layer.has_dropout_param()) return StrCat(layer.dropout_param().dropout_ratio());
  return {};
}

class Drawer {
 public:
  Drawer(const Graph& graph, const std::vector<LayerInfo>& infos) : graph_(graph), infos_(infos) {}

  std::string Draw() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Assign(n);
    text_ = StrCat("digraph \"", Escape(graph_.name), "\" {\n  label=\"", Escape(graph_.name), ", ",
                   Phase_Name(graph_.state.phase()),
                   "\";\n  labelloc=t;\n  fontname=\"Helvetica\";\n"
                   "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
                   "fontsize=11];\n  edge [fontname=\"Helvetica\", fontsize=9];\n");
    for (const auto& [box, label] : labels_) {
      text_ += StrCat("  n", box, " [label=\"", label, "\", fillcolor=\"",
                      ColourOf(*graph_.nodes[box].type), "\"];\n");
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Arrows(n);
    for (const int v : graph_.Outputs()) Output(v);
    return text_ + "}\n";
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  // Assigns a layer to a box: that of its input if it works in place.
  void Assign(size_t n) {
    const Node& node = graph_.nodes[n];
    const bool in_place = node.inputs.size() == 1 && node.outputs.size() == 1 &&
                          ValueOf(node.inputs[0]).name == ValueOf(node.outputs[0]).name;
    const size_t box = in_place ? box_[Index(ValueOf(node.inputs[0]).producer)] : n;
    box_.push_back(box);
    std::string line = Escape(node.name());
    const std::string brief = Brief(node.layer->param());
    line += StrCat(in_place ? " (" : "\\n", Escape(node.type->name),
                   brief.empty() ? "" : StrCat(" ", Escape(brief)), in_place ? ")" : "");
    std::string& label = labels_[box];
    label += label.empty() ? line : "\\n+ " + line;
  }

  void Arrows(size_t n) {
    const Node& node = graph_.nodes[n];
    for (const int v : node.inputs) {
      const size_t from = box_[Index(ValueOf(v).producer)];
      if (from == box_[n]) continue;
      text_ += StrCat("  n", from, " -> n", box_[n], " [label=\"", Label(v), "\"];\n");
    }
  }

  void Output(int v) {
    text_ += StrCat("  o", v, " [shape=ellipse, fillcolor=\"#ffffff\", label=\"",
                    Escape(ValueOf(v).name), "\"];\n  n", box_[Index(ValueOf(v).producer)], " -> o",
                    v, " [label=\"", Label(v), "\"];\n");
  }

  // Returns the shape, and the name if it differs from that of the layer.
  std::string Label(int v) const {
    const Value& value = ValueOf(v);
    const Node& producer = graph_.nodes[Index(value.producer)];
    const BlobSpec& spec = infos_[Index(value.producer)].outputs[Index(value.output)];
    std::string label = ToString(spec.shape) + (spec.dtype == DType::kU8 ? " u8" : "");
    if (value.name != producer.name() && producer.outputs.size() > 1) {
      label = StrCat(Escape(value.name), " ", label);
    }
    return label;
  }

  const Value& ValueOf(int v) const { return graph_.values[Index(v)]; }

  const Graph& graph_;
  const std::vector<LayerInfo>& infos_;
  std::vector<size_t> box_;  // by node
  std::map<size_t, std::string> labels_;
  std::string text_;
};

}  // namespace

std::string ToDot(const Graph& graph, const std::vector<LayerInfo>& infos) {
  return Drawer(graph, infos).Draw();
}

}  // namespace crema
