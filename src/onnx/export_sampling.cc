// Layers that resize planes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "crema.pb.h"
#include "layers/sampling/resample.h"
#include "layers/sampling/resample_taps.h"
#include "layers/sampling/unpool_window.h"
#include "onnx/export_windows.h"

namespace crema {
namespace {

// A factor by which ONNX computes the size `out`.
float FactorFor(int64_t in, int64_t out) {
  float factor = static_cast<float>(static_cast<double>(out) / static_cast<double>(in));
  const auto made = [&] {  // in single or in double precision
    const double product = static_cast<double>(in) * static_cast<double>(factor);
    return std::floor(std::min(product, static_cast<double>(static_cast<float>(product))));
  };
  while (made() < static_cast<double>(out)) factor = std::nextafter(factor, 1e30F);
  return factor;
}

// Copies elements `index` of an axis of `size`; nothing if they are all in their order.
std::string Pick(LayerExport& e, const std::string& x, int axis, int64_t size,
                 const std::vector<int64_t>& index) {
  if (index == Range(0, size)) return x;
  return e.Add("Gather", {x, e.graph.Ints(index)}, {{"axis", axis}});
}

// One axis of the input that is resampled.
struct Resampled {
  int axis;
  SampledAxis from;
};

std::vector<Resampled> AxesOf(const ResamplePlan& plan) {
  std::vector<Resampled> all;
  for (size_t a = 0; a < plan.axes.size(); ++a) {
    if (!plan.axes[a].resampled && plan.axes[a].length == plan.axes[a].in) continue;
    Sampling alone = plan.sampling;
    alone.axes[0] = plan.axes[a];
    alone.SetTaps();
    all.push_back({static_cast<int>(a), alone.axes[0]});
  }
  return all;
}

// Returns the name of the coordinates of ONNX that these are; null: others.
const char* CoordinatesOf(const SampledAxis& axis) {
  const auto in = static_cast<double>(axis.length), out = static_cast<double>(axis.out);
  const auto are = [&](const auto& place) {
    for (int64_t o = 0; o < axis.out; ++o) {
      const double wanted = place(static_cast<double>(o));
      if (std::abs(SamplePlace(axis, o) - wanted) > 1e-6 * (1 + std::abs(wanted))) return false;
    }
    return true;
  };
  if (are([&](double o) { return out > 1 ? o * (in - 1) / (out - 1) : 0; })) {
    return "align_corners";
  }
  if (are([&](double o) { return (o + 0.5) * in / out - 0.5; })) return "half_pixel";
  return are([&](double o) { return o * in / out; }) ? "asymmetric" : nullptr;
}

// Writes a Resize node if there is one for all axes; otherwise returns an empty text.
std::string ResizeNode(LayerExport& e, const Sampling& s, const std::vector<Resampled>& axes) {
  const bool cubic = s.interpolation == SamplingMethod::kCubic;
  if (axes.empty() || e.shape().axes() != 4 || axes[0].axis < 2 || s.exclude_outside) return "";
  const char* coordinates = CoordinatesOf(axes[0].from);
  if (coordinates == nullptr) return "";
  std::vector<float> scales(4, 1);
  std::string x = e.in[0];
  for (const Resampled& own : axes) {
    const SampledAxis& from = own.from;
    const char* other = CoordinatesOf(from);
    if (other == nullptr || std::string(other) != coordinates || from.cuts || from.narrowing < 1) {
      return "";
    }
    scales[static_cast<size_t>(own.axis)] = FactorFor(from.length, from.out);
  }
  for (const auto& [axis, from] : axes) {
    if (from.length != from.in) x = e.Slice(x, axis, from.start, from.start + from.length);
  }
  OnnxAttributes attributes = {{"mode", cubic ? "cubic" : "linear"},
                               {"coordinate_transformation_mode", coordinates}};
  if (cubic) attributes.emplace_back("cubic_coeff_a", s.cubic_a);
  return e.Add("Resize", {x, "", e.graph.Floats({4}, scales)}, attributes);
}

// Multiplies an axis by the weights of all its outputs.
std::string Weighted(LayerExport& e, const std::string& x, const Sampling& s,
                     const Resampled& own) {
  const SampledAxis& from = own.from;
  const int last = e.shape().axes() - 1;
  const bool columns = own.axis == last;  // in x out, otherwise out x in
  std::vector<float> weights(static_cast<size_t>(from.in * from.out), 0);
  for (int64_t o = 0; o < from.out; ++o) {
    const SampleBase base = SampleBaseOf(s, from, o);
    for (int t = 0; t < from.taps; ++t) {
      const SampleTap tap = SampleTapOf(s, from, base, t);
      const int64_t at = columns ? tap.index * from.out + o : o * from.in + tap.index;
      weights[static_cast<size_t>(at)] += static_cast<float>(tap.weight);
    }
  }
  if (columns) return e.Add("MatMul", {x, e.graph.Floats({from.in, from.out}, weights)});
  const std::string matrix = e.graph.Floats({from.out, from.in}, weights);
  std::vector<int64_t> order = Range(0, last + 1);  // exchanges the axis with the last but one
  std::swap(order[static_cast<size_t>(own.axis)], order[static_cast<size_t>(last - 1)]);
  return e.Transpose(e.Add("MatMul", {matrix, e.Transpose(x, order)}), order);
}

// Sets outputs outside of an axis that cuts.
std::string Extrapolated(LayerExport& e, const std::string& y, const Sampling& s,
                         const std::vector<Resampled>& axes) {
  std::string made = y;
  for (const Resampled& own : axes) {
    std::vector<float> inside;
    for (int64_t o = 0; o < own.from.out; ++o) {
      inside.push_back(SampleBaseOf(s, own.from, o).outside ? 0 : 1);
    }
    if (std::ranges::find(inside, 0) == inside.end()) continue;
    const std::string mask =
        e.graph.Floats(OnAxis(e.shape().axes(), own.axis, own.from.out), inside);
    made = e.Add("Where", {e.Add("Greater", {mask, e.graph.Scalar(0)}), made,
                           e.graph.Scalar(s.extrapolation)});
  }
  return made;
}

// Interp and Resize. Nearest elements are given by their index: rounding of ties differs.
void Resample(LayerExport& e) {
  const auto& layer = dynamic_cast<const ResampleLayer&>(e.layer);
  const ResamplePlan plan = layer.Plan(e.shape(), e.specs.size() > 1 ? &e.shape(1) : nullptr);
  const Sampling& s = plan.sampling;
  const std::vector<Resampled> axes = AxesOf(plan);
  std::string x = e.in[0];
  if (s.interpolation != SamplingMethod::kNearest) {
    x = ResizeNode(e, s, axes);
    if (!x.empty()) {
      e.out = {x};
      return;
    }
    x = e.in[0];
    for (const Resampled& own : axes) x = Weighted(e, x, s, own);
    e.out = {Extrapolated(e, x, s, axes)};
    return;
  }
  for (const auto& [axis, from] : axes) {
    std::vector<int64_t> index;
    for (int64_t o = 0; o < from.out; ++o) {
      index.push_back(SampleTapOf(s, from, SampleBaseOf(s, from, o), 0).index);
    }
    x = Pick(e, x, axis, from.in, index);
  }
  e.out = {Extrapolated(e, x, s, axes)};
}

// Values of x at the places of the mask, zeros elsewhere. -1 goes to a place after the last, which
// is cut off.
void MaskUnpool(LayerExport& e) {
  const Shape& in = e.shape();
  const Shape& out = e.out_shape();
  const int64_t cells = out.count(2);
  const Shape rows{in[0], in[1], in.count(2)};
  const std::string x = e.Reshape(e.in[0], rows);
  const std::string mask = e.Reshape(e.in[1], e.shape(1), rows, e.open[1]);
  const std::string nowhere = e.Add("Less", {mask, e.graph.Scalar(0)});
  const std::string places =
      e.ToInt(e.Add("Where", {nowhere, e.graph.Scalar(static_cast<double>(cells)), mask}));
  const std::string planes = e.Slice(e.Add("Shape", {x}), 0, 0, 2);
  const std::string shape = e.Add("Concat", {planes, e.graph.Ints({cells + 1})}, {{"axis", 0}});
  const std::string zeros = e.Add("ConstantOfShape", {shape});
  std::string y = e.Add("ScatterElements", {zeros, places, x}, {{"axis", 2}});
  y = e.Slice(y, 2, 0, cells);
  e.out = {e.Reshape(y, Shape{out[0], out[1], cells}, out, e.open[0])};
}

std::vector<int64_t> Repeated(int64_t in, int64_t out) {
  std::vector<int64_t> index;
  for (int64_t o = 0; o < out; ++o) index.push_back(o * in / out);
  return index;
}

void Upsample(LayerExport& e) {
  if (e.in.size() > 1) return MaskUnpool(e);
  const Shape& in = e.shape();
  const Shape& out = e.out_shape();
  if (out[2] % in[2] == 0 && out[3] % in[3] == 0) {
    const int64_t up = out[2] / in[2], across = out[3] / in[3];
    const std::string scales =
        e.graph.Floats({4}, {1, 1, static_cast<float>(up), static_cast<float>(across)});
    e.out = {e.Add("Resize", {e.in[0], "", scales},
                   {{"mode", "nearest"},
                    {"coordinate_transformation_mode", "asymmetric"},
                    {"nearest_mode", "floor"}})};
    return;
  }
  const std::string rows = Pick(e, e.in[0], 2, in[2], Repeated(in[2], out[2]));
  e.out = {Pick(e, rows, 3, in[3], Repeated(in[3], out[3]))};
}

// 1 / cells of each window.
std::string Shares(LayerExport& e, const PoolWindow& window) {
  std::vector<float> shares;
  for (int64_t h = 0; h < window.h.out; ++h) {
    for (int64_t w = 0; w < window.w.out; ++w) {
      shares.push_back(
          static_cast<float>(1 / static_cast<double>(window.h.Padded(h) * window.w.Padded(w))));
    }
  }
  return e.graph.Floats({window.h.out, window.w.out}, shares);
}

// Each value is spread over its window by a transposed convolution with ones.
void UnPooling(LayerExport& e) {
  const UnPoolingParameter& p = e.param.unpooling_param();
  if (p.unpool() == UnPoolingParameter::MAX) return MaskUnpool(e);
  const PoolWindow window = UnpoolWindow(e.layer, e.shape());
  const int64_t channels = e.shape()[1];
  std::string x = e.in[0];
  if (p.unpool() == UnPoolingParameter::AVE) x = e.Add("Mul", {x, Shares(e, window)});
  const std::vector<int64_t> kernel = {window.h.kernel, window.w.kernel};
  const std::vector<float> ones(static_cast<size_t>(channels * kernel[0] * kernel[1]), 1);
  x = e.Add("ConvTranspose", {x, e.graph.Floats({channels, 1, kernel[0], kernel[1]}, ones)},
            {{"kernel_shape", kernel},
             {"strides", std::vector<int64_t>{window.h.stride, window.w.stride}},
             {"group", channels}});
  std::vector<int64_t> before, after;
  for (const PoolAxis& axis : {window.h, window.w}) {
    const int64_t made = (axis.out - 1) * axis.stride + axis.kernel;
    before.push_back(-axis.pad);
    after.push_back(axis.in - (made - axis.pad));
  }
  e.out = {ExportPad(&e, x, 4, 2, before, after, 0)};
}

}  // namespace

void AddSamplingEmitters(EmitterTable* table) {
  table->insert({
      {"Interp", Resample},
      {"Resize", Resample},
      {"UnPooling", UnPooling},
      {"Upsample", Upsample},
  });
}

}  // namespace crema
