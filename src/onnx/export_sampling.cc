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

std::vector<int64_t> NearestOf(const Sampling& sampling, const SampledAxis& axis) {
  std::vector<int64_t> index;
  for (int64_t o = 0; o < axis.out; ++o) {
    index.push_back(SampleTapOf(axis, 1, SampleBaseOf(sampling, axis, o), 0).index);
  }
  return index;
}

// Interp and Resize. Nearest elements are told by their index: rounding of ties differs.
void Resample(LayerExport& e) {
  const auto& layer = dynamic_cast<const ResampleLayer&>(e.layer);
  const Shape* reference = e.specs.size() > 1 ? &e.shape(1) : nullptr;
  Sampling s = layer.Plan(e.shape(), reference);
  std::string x = e.in[0];
  if (s.interpolation == Interpolation::kNearest) {
    x = Pick(e, x, 2, s.h.in, NearestOf(s, s.h));
    e.out = {Pick(e, x, 3, s.w.in, NearestOf(s, s.w))};
    return;
  }
  if (s.h.length != s.h.in) x = e.Slice(x, 2, s.h.start, s.h.start + s.h.length);
  if (s.w.length != s.w.in) x = e.Slice(x, 3, s.w.start, s.w.start + s.w.length);
  const std::string scales =
      e.graph.Floats({4}, {1, 1, FactorFor(s.h.length, s.h.out), FactorFor(s.w.length, s.w.out)});
  const bool cubic = s.interpolation == Interpolation::kCubic;
  OnnxAttributes attributes = {
      {"mode", cubic ? "cubic" : "linear"},
      {"coordinate_transformation_mode", s.align_corners ? "align_corners" : "half_pixel"}};
  if (cubic) attributes.emplace_back("cubic_coeff_a", -0.75);
  e.out = {e.Add("Resize", {x, "", scales}, attributes)};
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
