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

// Returns the taps of output `o`, nearest or weighted.
std::vector<SampleTap> TapsOf(const Sampling& sampling, const SampledAxis& axis, int64_t o) {
  const SampleBase base = SampleBaseOf(sampling, axis, o);
  std::vector<SampleTap> taps;
  for (int t = 0; t < axis.taps; ++t) taps.push_back(SampleTapOf(sampling, axis, base, t));
  return taps;
}

// Multiplies axis `a` by its in x out weights.
std::string Weigh(LayerExport& e, const std::string& x, int a, const Sampling& sampling,
                  const SampledAxis& axis) {
  std::vector<float> weights(static_cast<size_t>(axis.in * axis.out));
  for (int64_t o = 0; o < axis.out; ++o) {
    for (const SampleTap& tap : TapsOf(sampling, axis, o)) {
      weights[static_cast<size_t>(tap.index * axis.out + o)] += static_cast<float>(tap.weight);
    }
  }
  std::vector<int64_t> order = Range(0, e.shape().axes());
  std::swap(order[static_cast<size_t>(a)], order.back());
  const std::string product =
      e.Add("MatMul", {e.Transpose(x, order), e.graph.Floats({axis.in, axis.out}, weights)});
  return e.Transpose(product, order);
}

// Returns the coordinates of ONNX that give the positions of this axis; null if none does.
const char* CoordinatesOf(const SampledAxis& axis) {
  if (!axis.resampled) return "half_pixel";
  SampledAxis areas = axis, corners = axis;
  areas.AlignAreas(static_cast<double>(axis.length), static_cast<double>(axis.out));
  corners.AlignCorners(static_cast<double>(axis.out));
  const auto same = [&](const SampledAxis& other) {
    return SamplePlace(axis, 0) == SamplePlace(other, 0) &&
           SamplePlace(axis, axis.out - 1) == SamplePlace(other, axis.out - 1);
  };
  return same(areas) ? "half_pixel" : same(corners) ? "align_corners" : nullptr;
}

// Returns the coordinates if the operator Resize, whose results depend on the runtime least in
// these forms, computes the layer; else null.
const char* PlainCoordinates(const Sampling& s, const std::vector<SampledAxis>& axes) {
  if (axes.size() != 4 || axes[0].resampled || axes[1].resampled || s.exclude_outside) {
    return nullptr;
  }
  const char* coordinates = CoordinatesOf(axes[2].resampled ? axes[2] : axes[3]);
  for (const SampledAxis& axis : {axes[2], axes[3]}) {
    if (!axis.resampled) continue;
    const char* own = CoordinatesOf(axis);
    if (own != coordinates || axis.narrowing < 1 || axis.cuts) return nullptr;
  }
  return coordinates;
}

std::string Plainly(LayerExport& e, const Sampling& s, const std::vector<SampledAxis>& axes,
                    const char* coordinates) {
  std::string x = e.in[0];
  std::vector<float> factors;
  for (int a = 0; a < 4; ++a) {
    const SampledAxis& axis = axes[static_cast<size_t>(a)];
    if (axis.length != axis.in) x = e.Slice(x, a, axis.start, axis.start + axis.length);
    factors.push_back(axis.resampled ? FactorFor(axis.length, axis.out) : 1);
  }
  const bool cubic = s.interpolation == Interpolation::kCubic;
  OnnxAttributes attributes = {{"mode", cubic ? "cubic" : "linear"},
                               {"coordinate_transformation_mode", coordinates}};
  if (cubic) attributes.emplace_back("cubic_coeff_a", s.cubic_a);
  return e.Add("Resize", {x, "", e.graph.Floats({4}, factors)}, attributes);
}

// Interp and Resize. Nearest elements are told by their index, since rounding of ties differs; what
// the operator Resize does not have is a product with weights.
void Resample(LayerExport& e) {
  const auto& layer = dynamic_cast<const ResampleLayer&>(e.layer);
  const ResamplePlan plan = layer.Plan(e.shape(), e.specs.size() > 1 ? &e.shape(1) : nullptr);
  Sampling s = plan.sampling;
  const bool nearest = s.interpolation == Interpolation::kNearest;
  const char* coordinates = nearest ? nullptr : PlainCoordinates(s, plan.axes);
  if (coordinates != nullptr) {
    e.out = {Plainly(e, s, plan.axes, coordinates)};
    return;
  }
  std::string x = e.in[0];
  for (int a = 0; a < e.shape().axes(); ++a) {
    if (!plan.axes[static_cast<size_t>(a)].resampled) continue;
    s.axes[0] = plan.axes[static_cast<size_t>(a)];
    s.SetTaps();
    const SampledAxis& axis = s.axes[0];
    if (axis.cuts && s.extrapolation != 0) e.Refuse("it extrapolates by a value other than 0");
    if (!nearest || axis.cuts) {
      x = Weigh(e, x, a, s, axis);
      continue;
    }
    std::vector<int64_t> index;
    for (int64_t o = 0; o < axis.out; ++o) index.push_back(TapsOf(s, axis, o)[0].index);
    x = Pick(e, x, a, axis.in, index);
  }
  e.out = {x};
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
    const std::string scales = e.graph.Floats(
        {4}, {1, 1, static_cast<float>(out[2] / in[2]), static_cast<float>(out[3] / in[3])});
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
