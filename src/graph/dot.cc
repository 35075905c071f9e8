#include "graph/dot.h"

#include <map>
#include <utility>

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

size_t Index(int i) { return static_cast<size_t>(i); }

}  // namespace

std::string BriefParameters(const LayerParameter& layer) {
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

std::string ShapeText(const Graph& graph, const std::vector<LayerInfo>& infos, int value) {
  const Value& of = graph.values[Index(value)];
  const BlobSpec& spec = infos[Index(of.producer)].outputs[Index(of.output)];
  return ToString(spec.shape) + (spec.dtype == DType::kU8 ? " u8" : "");
}

namespace {

class Drawer {
 public:
  Drawer(const Graph& graph, const std::vector<LayerInfo>& infos,
         const std::vector<std::string>& remarks)
      : graph_(graph), infos_(infos), remarks_(remarks) {}

  NetDrawing Draw() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Assign(n);
    std::string& text = drawing_.dot;
    text = StrCat("digraph \"", Escape(graph_.name), "\" {\n  label=\"", Escape(graph_.name), ", ",
                  Phase_Name(graph_.state.phase()),
                  "\";\n  labelloc=t;\n  fontname=\"Helvetica\";\n"
                  "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
                  "fontsize=11];\n");
    for (size_t b = 0; b < drawing_.boxes.size(); ++b) Box(b);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Arrows(n);
    for (const int v : graph_.Outputs()) Output(v);
    text += "}\n";
    return std::move(drawing_);
  }

 private:
  // Assigns a layer to a box: that of its input if it works in place.
  void Assign(size_t n) {
    const Node& node = graph_.nodes[n];
    const bool in_place = node.inputs.size() == 1 && node.outputs.size() == 1 &&
                          ValueOf(node.inputs[0]).name == ValueOf(node.outputs[0]).name;
    const size_t box =
        in_place ? box_[Index(ValueOf(node.inputs[0]).producer)] : drawing_.boxes.size();
    box_.push_back(box);
    if (!in_place) {
      drawing_.boxes.push_back({.id = StrCat("n", n), .nodes = {}});
      labels_.emplace_back();
    }
    drawing_.boxes[box].nodes.push_back(n);
    std::string line = Escape(node.name());
    const std::string brief = BriefParameters(node.layer->param());
    line += StrCat(in_place ? " (" : "\\n", Escape(node.type->name),
                   brief.empty() ? "" : StrCat(" ", Escape(brief)), in_place ? ")" : "");
    if (!remarks_.empty() && !remarks_[n].empty()) line += "\\n" + Escape(remarks_[n]);
    std::string& label = labels_[box];
    label += label.empty() ? line : "\\n+ " + line;
  }

  void Box(size_t b) {
    const NetDrawing::Box& box = drawing_.boxes[b];
    const LayerType& type = *graph_.nodes[box.nodes.front()].type;
    const std::string shapes = Shapes(graph_.nodes[box.nodes.back()]);
    drawing_.dot +=
        StrCat("  ", box.id, " [label=\"", labels_[b], shapes.empty() ? "" : "\\n" + shapes,
               "\", fillcolor=\"", ColourOf(type), "\", id=\"", box.id, "\"];\n");
  }

  // Returns the shapes of the outputs, with names if there are several.
  std::string Shapes(const Node& node) const {
    std::string text;
    for (const int v : node.outputs) {
      if (!text.empty()) text += ", ";
      if (node.outputs.size() > 1) text += Escape(ValueOf(v).name) + " ";
      text += ShapeText(graph_, infos_, v);
    }
    return text;
  }

  void Arrow(const std::string& from, const std::string& to, int value) {
    const std::string id = StrCat("e", drawing_.arrows.size());
    drawing_.dot += StrCat("  ", from, " -> ", to, " [id=\"", id, "\"];\n");
    drawing_.arrows.push_back({.id = id, .from = from, .to = to, .value = value});
  }

  const std::string& BoxOf(int value) const {
    return drawing_.boxes[box_[Index(ValueOf(value).producer)]].id;
  }

  void Arrows(size_t n) {
    for (const int v : graph_.nodes[n].inputs) {
      const std::string& to = drawing_.boxes[box_[n]].id;
      if (BoxOf(v) != to) Arrow(BoxOf(v), to, v);
    }
  }

  void Output(int v) {
    const std::string id = StrCat("o", v);
    drawing_.dot += StrCat("  ", id, " [shape=ellipse, fillcolor=\"#ffffff\", label=\"",
                           Escape(ValueOf(v).name), "\", id=\"", id, "\"];\n");
    Arrow(BoxOf(v), id, v);
  }

  const Value& ValueOf(int v) const { return graph_.values[Index(v)]; }

  const Graph& graph_;
  const std::vector<LayerInfo>& infos_;
  const std::vector<std::string>& remarks_;
  std::vector<size_t> box_;  // by node
  std::vector<std::string> labels_;
  NetDrawing drawing_;
};

}  // namespace

NetDrawing DrawNet(const Graph& graph, const std::vector<LayerInfo>& infos,
                   const std::vector<std::string>& remarks) {
  return Drawer(graph, infos, remarks).Draw();
}

std::string ToDot(const Graph& graph, const std::vector<LayerInfo>& infos) {
  return DrawNet(graph, infos).dot;
}

}  // namespace crema
