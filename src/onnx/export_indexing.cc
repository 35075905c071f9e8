// Layers that choose, place and order elements by index.
#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

void Gather(LayerExport& e) {
  const GatherParameter& p = e.param.gather_param();
  const std::string index = e.ToInt(e.in[1]);
  if (p.mode() == GatherParameter::ND) {
    e.out = {e.Add("GatherND", {e.in[0], index}, {{"batch_dims", p.batch_dims()}})};
    return;
  }
  const char* type = p.mode() == GatherParameter::AXIS ? "Gather" : "GatherElements";
  e.out = {e.Add(type, {e.in[0], index}, {{"axis", e.shape().CanonicalAxis(p.axis())}})};
}

const char* ReductionOf(LayerExport& e) {
  const ScatterParameter::Reduction reduction = e.param.scatter_param().reduction();
  if (reduction == ScatterParameter::NONE) return "none";
  if (e.graph.opset() < 16) e.Refuse("its reduction needs opset 16");
  if (reduction == ScatterParameter::ADD) return "add";
  if (reduction == ScatterParameter::MUL) return "mul";
  if (e.graph.opset() < 18) e.Refuse("its reduction needs opset 18");
  return reduction == ScatterParameter::MAX ? "max" : "min";
}

void Scatter(LayerExport& e) {
  const ScatterParameter& p = e.param.scatter_param();
  const std::vector<std::string> inputs = {e.in[0], e.ToInt(e.in[1]), e.in[2]};
  OnnxAttributes attributes;
  const std::string reduction = ReductionOf(e);
  if (reduction != "none") attributes.emplace_back("reduction", reduction.c_str());
  if (p.mode() == ScatterParameter::ND) {
    e.out = {e.Add("ScatterND", inputs, attributes)};
    return;
  }
  attributes.emplace_back("axis", e.shape().CanonicalAxis(p.axis()));
  e.out = {e.Add("ScatterElements", inputs, attributes)};
}

// Without `sorted`, the chosen elements stay in the order of the axis.
void TopK(LayerExport& e) {
  const TopKParameter& p = e.param.top_k_param();
  const int axis = e.shape().CanonicalAxis(p.axis());
  const std::string k = e.graph.Ints({p.k()});
  std::vector<std::string> top =
      e.graph.AddMany("TopK", {e.in[0], k}, 2, {{"axis", axis}, {"largest", p.largest() ? 1 : 0}});
  if (!p.sorted()) {
    const std::vector<std::string> order =
        e.graph.AddMany("TopK", {top[1], k}, 2, {{"axis", axis}, {"largest", 0}});
    top = {e.Add("GatherElements", {top[0], order[1]}, {{"axis", axis}}), order[0]};
  }
  e.out = {top[0]};
  if (e.info.outputs.size() > 1) e.out.push_back(e.ToFloat(top[1]));
}

void StridedSlice(LayerExport& e) {
  const StridedSliceParameter& p = e.param.strided_slice_param();
  std::vector<int64_t> axes(p.axes().begin(), p.axes().end());
  if (axes.empty()) axes = Range(0, p.start_size());
  std::vector<int64_t> steps(p.step().begin(), p.step().end());
  steps.resize(axes.size(), 1);
  e.out = {e.Add("Slice", {e.in[0], e.graph.Ints({p.start().begin(), p.start().end()}),
                           e.graph.Ints({p.end().begin(), p.end().end()}), e.graph.Ints(axes),
                           e.graph.Ints(steps)})};
}

void CumSum(LayerExport& e) {
  const CumSumParameter& p = e.param.cum_sum_param();
  e.out = {e.Add("CumSum", {e.in[0], e.graph.Int(e.shape().CanonicalAxis(p.axis()))},
                 {{"exclusive", p.exclusive() ? 1 : 0}, {"reverse", p.reverse() ? 1 : 0}})};
}

void OneHot(LayerExport& e) {
  const OneHotParameter& p = e.param.one_hot_param();
  // The operator takes indices of one axis or more.
  const bool scalar = e.shape().axes() == 0;
  const std::string index = scalar ? e.Unsqueeze(e.in[0], {0}) : e.in[0];
  const std::string y = e.Add(
      "OneHot",
      {e.ToInt(index), e.graph.Int(p.depth()), e.graph.Floats({2}, {p.off_value(), p.on_value()})},
      {{"axis", scalar ? -1 : p.axis()}});
  e.out = {scalar ? e.Squeeze(y, {0}) : y};
}

void Trilu(LayerExport& e) {
  if (e.graph.opset() < 14) e.Refuse("it needs opset 14");
  const TriluParameter& p = e.param.trilu_param();
  e.out = {e.Add("Trilu", {e.in[0], e.graph.Int(p.k())}, {{"upper", p.upper() ? 1 : 0}})};
}

// Axes that `...` stands for in a bottom, and the first of them. -1: its term has no `...`.
struct Ellipsis {
  int64_t begin = -1;
  int64_t axes = 0;
};

Ellipsis EllipsisOf(const std::string& term, const Shape& shape) {
  std::string letters = term;
  std::erase(letters, ' ');
  const size_t dots = letters.find("...");
  if (dots == std::string::npos) return {};
  return {static_cast<int64_t>(dots), shape.axes() - static_cast<int64_t>(letters.size()) + 3};
}

// In ONNX, `...` stands for as many axes in each bottom: missing ones are added.
void Einsum(LayerExport& e) {
  const std::string& equation = e.param.einsum_param().equation();
  const std::vector<std::string> terms = Split(equation.substr(0, equation.find("->")), ',');
  std::vector<Ellipsis> all;
  int64_t most = 0;
  for (size_t i = 0; i < e.in.size(); ++i) {
    all.push_back(EllipsisOf(terms[i], e.shape(i)));
    most = std::max(most, all.back().axes);
  }
  std::vector<std::string> inputs;
  for (size_t i = 0; i < e.in.size(); ++i) {
    const auto [begin, axes] = all[i];
    inputs.push_back(begin < 0 ? e.in[i] : e.Unsqueeze(e.in[i], Range(begin, begin + most - axes)));
  }
  e.out = {e.Add("Einsum", inputs, {{"equation", equation.c_str()}})};
}

void GridSample(LayerExport& e) {
  if (e.graph.opset() < 16) e.Refuse("it needs opset 16");
  const GridSampleParameter& p = e.param.grid_sample_param();
  const bool short_names = e.graph.opset() >= 20;
  if (e.shape().axes() != 4 && !short_names) e.Refuse("other than two spatial axes need opset 20");
  const char* mode = p.interpolation() == GridSampleParameter::NEAREST ? "nearest"
                     : p.interpolation() == GridSampleParameter::LINEAR
                         ? (short_names ? "linear" : "bilinear")
                         : (short_names ? "cubic" : "bicubic");
  const char* padding = p.padding() == GridSampleParameter::ZEROS    ? "zeros"
                        : p.padding() == GridSampleParameter::BORDER ? "border"
                                                                     : "reflection";
  e.out = {e.Add(
      "GridSample", e.in,
      {{"mode", mode}, {"padding_mode", padding}, {"align_corners", p.align_corners() ? 1 : 0}})};
}

void NonMaxSuppression(LayerExport& e) {
  const NonMaxSuppressionParameter& p = e.param.non_max_suppression_param();
  const int64_t most =
      p.has_max_output_boxes_per_class() ? p.max_output_boxes_per_class() : e.shape(0)[1];
  std::vector<std::string> inputs = {e.in[0], e.in[1], e.graph.Ints({most}),
                                     e.graph.Floats({1}, {p.iou_threshold()})};
  if (p.has_score_threshold()) inputs.push_back(e.graph.Floats({1}, {p.score_threshold()}));
  e.out = {e.ToFloat(
      e.Add("NonMaxSuppression", inputs, {{"center_point_box", p.center_point_box() ? 1 : 0}}))};
}

}  // namespace

void AddIndexingEmitters(EmitterTable* table) {
  table->insert({
      {"CumSum", CumSum},
      {"Einsum", Einsum},
      {"Gather", Gather},
      {"GridSample", GridSample},
      {"NonMaxSuppression", NonMaxSuppression},
      {"OneHot", OneHot},
      {"Scatter", Scatter},
      {"StridedSlice", StridedSlice},
      {"TopK", TopK},
      {"Trilu", Trilu},
  });
}

}  // namespace crema
