// Pooling, Pooling3D and SPP. The windows of Crema become pads that are given one by one: ONNX's
// ceil_mode rounds otherwise.
#include <algorithm>
#include <limits>

#include "crema.pb.h"
#include "layers/pooling/pooling.h"
#include "layers/pooling/spp_levels.h"
#include "onnx/export_windows.h"

namespace crema {
namespace {

struct Window {
  std::vector<int64_t> kernel, stride, before, after;
  bool whole = true;  // one window that covers all
};

Window WindowOf(const PoolWindowNd& planned) {
  Window window;
  for (int a = 0; a < planned.size; ++a) {
    const PoolAxis& axis = planned.axes[static_cast<size_t>(a)];
    const int64_t end = (axis.out - 1) * axis.stride + axis.kernel - axis.in - axis.pad;
    window.kernel.push_back(axis.kernel);
    window.stride.push_back(axis.stride);
    window.before.push_back(axis.pad);
    window.after.push_back(std::max<int64_t>(end, 0));
    window.whole = window.whole && axis.out == 1 && axis.pad == 0 && axis.kernel == axis.in;
  }
  return window;
}

OnnxAttributes AttributesOf(const Window& window) {
  std::vector<int64_t> pads = window.before;
  pads.insert(pads.end(), window.after.begin(), window.after.end());
  OnnxAttributes attributes = {{"kernel_shape", window.kernel}, {"strides", window.stride}};
  if (std::ranges::any_of(pads, [](int64_t pad) { return pad != 0; })) {
    attributes.emplace_back("pads", pads);
  }
  return attributes;
}

// Factors that make means over whole kernels means over the cells that Crema divides by. Empty: all
// are 1.
std::string Divisors(LayerExport* e, const PoolWindowNd& planned) {
  std::string factors;
  for (int a = 0; a < planned.size; ++a) {
    const PoolAxis& axis = planned.axes[static_cast<size_t>(a)];
    std::vector<float> values;
    for (int64_t o = 0; o < axis.out; ++o) {
      values.push_back(static_cast<float>(static_cast<double>(axis.kernel) /
                                          static_cast<double>(axis.Padded(o))));
    }
    if (std::ranges::all_of(values, [](float v) { return v == 1; })) continue;
    const std::string own = e->graph.Floats(OnAxis(planned.size, a, axis.out), values);
    factors = factors.empty() ? own : e->Add("Mul", {factors, own});
  }
  return factors;
}

// Returns true if Crema divides by the cells of the image in each window, since there is no
// padding: the default of ONNX, which also readers understand that ignore count_include_pad.
bool CountsCellsOfImage(const PoolWindowNd& planned) {
  for (int a = 0; a < planned.size; ++a) {
    const PoolAxis& axis = planned.axes[static_cast<size_t>(a)];
    if (axis.pad != 0 || axis.End(axis.out - 1) <= axis.Begin(axis.out - 1)) return false;
  }
  return true;
}

std::string Average(LayerExport* e, const std::string& x, const PoolWindowNd& planned,
                    bool exclude_pad) {
  const Window window = WindowOf(planned);
  if (window.whole) return e->Add("GlobalAveragePool", {x});
  OnnxAttributes attributes = AttributesOf(window);
  const bool include = attributes.size() > 2 && !exclude_pad && !CountsCellsOfImage(planned);
  if (include) attributes.emplace_back("count_include_pad", 1);
  const std::string y = e->Add("AveragePool", {x}, attributes);
  const std::string factors = include ? Divisors(e, planned) : "";
  return factors.empty() ? y : e->Add("Mul", {y, factors});
}

std::string Largest(LayerExport* e, std::string x, const PoolWindowNd& planned,
                    std::string* positions) {
  Window window = WindowOf(planned);
  if (window.whole && positions == nullptr) return e->Add("GlobalMaxPool", {x});
  // Runtimes refuse pads as large as the kernel, which windows outside of the image have.
  bool outside = false;
  for (size_t a = 0; a < window.kernel.size(); ++a) {
    outside = outside || window.after[a] >= window.kernel[a];
  }
  if (outside) {
    if (positions != nullptr) e->Refuse("it has positions of windows outside of the image");
    x = ExportPad(e, x, planned.size + 2, 2, window.before, window.after,
                  -std::numeric_limits<float>::max());
    std::ranges::fill(window.before, 0);
    std::ranges::fill(window.after, 0);
  }
  if (positions == nullptr) return e->Add("MaxPool", {x}, AttributesOf(window));
  const std::vector<std::string> both = e->graph.AddMany("MaxPool", {x}, 2, AttributesOf(window));
  const std::string place = e->Add("Mod", {both[1], e->graph.Int(planned.InSize())});
  *positions = e->ToFloat(place);
  return both[0];
}

// The mean weighted by the values; 0 where they sum to 0.
std::string Weighted(LayerExport* e, const std::string& x, const PoolWindowNd& planned) {
  const std::string squares = Average(e, e->Add("Mul", {x, x}), planned, false);
  const std::string sums = Average(e, x, planned, false);
  const std::string zero = e->graph.Scalar(0);
  const std::string some = e->Add("Greater", {sums, zero});
  return e->Add("Where", {some, e->Add("Div", {squares, sums}), zero});
}

void PoolPlanesOf(LayerExport& e) {
  const auto& layer = dynamic_cast<const Pooling&>(e.layer);
  const PoolPlanes planes = layer.Planes(e.shape(), TEST);
  const int first = layer.FirstSpatial(e.shape());
  const int spatial = e.shape().axes() - first;
  // Two axes before the spatial ones.
  std::vector<int64_t> dims = {e.shape().count(0, first - 1), e.shape()[first - 1]};
  for (int a = first; a < e.shape().axes(); ++a) dims.push_back(e.shape()[a]);
  const Shape flat{std::span<const int64_t>(dims)};
  for (int a = 0; a < spatial; ++a) {
    dims[static_cast<size_t>(a) + 2] = e.out_shape()[first + a];
  }
  const Shape pooled{std::span<const int64_t>(dims)};
  const std::string x = e.Reshape(e.in[0], e.shape(), flat, e.open[0] && first > 1);
  std::string positions;
  const std::string y = ExportPool(&e, x, planes.window(), planes.method(), planes.exclude_pad(),
                                   e.info.outputs.size() > 1 ? &positions : nullptr);
  e.out = {e.Reshape(y, pooled, e.out_shape(), e.open[0])};
  if (!positions.empty()) {
    e.out.push_back(e.Reshape(positions, pooled, e.out_shape(), e.open[0]));
  }
}

void Spp(LayerExport& e) {
  const SppLevels levels = MakeSppLevels(e.layer, e.shape(), TEST);
  std::vector<std::string> parts;
  for (size_t i = 0; i < levels.size(); ++i) {
    const PoolPlanes& pool = levels[i].pool;
    parts.push_back(ExportPool(&e, e.in[0], pool.window(), pool.method(), false, nullptr));
    if (levels.size() > 1) parts.back() = e.Add("Flatten", {parts.back()}, {{"axis", 1}});
  }
  e.out = {parts.size() == 1 ? parts[0] : e.Add("Concat", parts, {{"axis", 1}})};
}

}  // namespace

std::string ExportPool(LayerExport* e, const std::string& x, const PoolWindowNd& window,
                       PoolPlanes::Method method, bool exclude_pad, std::string* positions) {
  if (window.size > 3) e->Refuse("it has more than three spatial axes, which no runtime pools");
  switch (method) {
    case PoolPlanes::Method::kAverage:
      return Average(e, x, window, exclude_pad);
    case PoolPlanes::Method::kWeighted:
      return Weighted(e, x, window);
    default:
      return Largest(e, x, window, positions);
  }
}

void AddPoolingEmitters(EmitterTable* table) {
  table->insert({{"Pooling", PoolPlanesOf}, {"Pooling3D", PoolPlanesOf}, {"SPP", Spp}});
}

}  // namespace crema
