// SpatialTransformer (Jaderberg et al.: Spatial Transformer Networks, 2015): y[n, c, i, j] = x[n,
// c] at the row and column (theta[n] (i', j', 1)), where i' and j' run from -1 to 1. Values between
// elements are interpolated, those outside are 0. It samples as GridSample does, at computed points
// (grid_points.h).
#include "layers/sampling/spatial_transformer.h"

#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_number.h"
#include "layers/sampling/grid_points.h"
#include "math/scratch.h"

namespace crema {
namespace {

class SpatialTransformer final : public Layer {
 public:
  explicit SpatialTransformer(const LayerParameter& param) : Layer(param) {
    const SpatialTransformerParameter& p = param.st_param();
    if (p.transform_type() != "affine") {
      FailField(*this, "st_param.transform_type",
                StrCat("transform_type is '", p.transform_type(), "', expected 'affine'"));
    }
    if (p.sampler_type() != "bilinear") {
      FailField(*this, "st_param.sampler_type",
                StrCat("sampler_type is '", p.sampler_type(), "', expected 'bilinear'"));
    }
    CheckSize(p.has_output_h(), p.output_h(), "st_param.output_H");
    CheckSize(p.has_output_w(), p.output_w(), "st_param.output_W");
    const AffineNumbers numbers(p);
    for (int i = 0; i < 6; ++i) {
      FiniteNumber(*this, static_cast<float>(numbers.fixed[i]),
                   StrCat("st_param.theta_", i / 3 + 1, "_", i % 3 + 1));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const SpatialTransformerParameter& p = param().st_param();
    const Shape &x = context.inputs[0].shape, &theta = context.inputs[1].shape;
    const int given = AffineNumbers(p).given;
    if (x.axes() != 4 || x.count(2) == 0) {
      FailInputs(*this, StrCat("x must be N x C x H x W with elements, but it is ", ToString(x)));
    }
    if (theta.axes() < 1 || theta[0] != x[0] || theta.count(1) != given) {
      FailInputs(*this, StrCat("theta must hold the ", given,
                               " numbers that st_param leaves open "
                               "for each of the ",
                               x[0], " items, but its shape is ", ToString(theta)));
    }
    LayerInfo info;
    info.outputs = {{Shape{x[0], x[1], p.has_output_h() ? p.output_h() : x[2],
                           p.has_output_w() ? p.output_w() : x[3]},
                     context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.backward_reads_input = {true, true};
    info.gradient_forbidden = {!p.to_compute_du(), false};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const AffinePoints<T> points(*this, args.inputs[0].shape(), args.outputs[0].shape(),
                                   args.inputs[1].data<T>());
      SamplePoints(args.context.threads(), points, args.inputs[0].data<T>(),
                   args.outputs[0].data<T>());
    });
  }

  // The derivatives of each point by row and column.
  size_t BackwardScratch(const InferContext&, const LayerInfo& info, int) const override {
    const Shape& y = info.outputs[0].shape;
    return ScratchBytes<double>(2 * y[0] * y.count(2)) + kScratchSlack;
  }

  void Backward(const BackwardArgs& args) const override {
    const TensorView &dx = args.input_grads[0], &dtheta = args.input_grads[1];
    const int threads = args.context.threads();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const AffinePoints<T> points(*this, args.inputs[0].shape(), args.output_grads[0].shape(),
                                   args.inputs[1].data<T>());
      const T* dy = args.output_grads[0].data<T>();
      if (!dx.empty()) SpreadToPlanes(threads, points, dy, dx.data<T>());
      if (dtheta.empty()) return;
      const int64_t out = points.s.out, given = points.numbers.given;
      double* slopes = ScratchCutter(args.scratch).Take<double>(2 * points.s.samples * out);
      SlopesOfPoints(threads, points, args.inputs[0].data<T>(), dy,
                     [&](int64_t at, const double* slope) {
                       slopes[2 * at] = slope[0];
                       slopes[2 * at + 1] = slope[1];
                     });
      ParallelFor(threads, points.s.samples * given, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          double sum = 0;
          for (int64_t o = 0; o < out; ++o) {
            sum += points.Slope(slopes, i / given * out + o, i % given);
          }
          dtheta.data<T>()[i] = static_cast<T>(sum);
        }
      });
    });
  }

 private:
  void CheckSize(bool given, int32_t size, const char* field) const {
    if (given && size < 1)
      FailField(*this, field, StrCat("the size is ", size, ", expected 1 or more"));
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, int64_t numbers) {
    return LayerSample{
        .name = std::move(name),
        .prototxt = "st_param { " + fields + " }",
        .inputs = {{.shape = {2, 3, 5, 4}}, {.shape = {2, numbers}, .low = 0.2, .high = 0.7}}};
  };
  return {
      sample("all_numbers", "", 6),
      sample("size", "output_H: 3 output_W: 6", 6),
      sample("zoom", "theta_1_2: 0 theta_2_1: 0.01 output_H: 3 output_W: 3", 4),
      sample("shift", "theta_1_1: 1 theta_1_2: 0 theta_2_1: 0 theta_2_2: 1", 2),
      sample("no_gradient_of_x", "to_compute_dU: false", 6),
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {{.shape = {0, 2, 3, 3}}, {.shape = {0, 6}}}},
  };
}

}  // namespace

void RegisterSpatialTransformer(Registry& registry) {
  LayerType type;
  type.name = "SpatialTransformer";
  type.category = "sampling";
  type.summary = "Samples planes at the points of an affine transformation for each item.";
  type.formula =
      "y[n, c, i, j] = x[n, c], bilinear and 0 outside, at row (p + 1) H / 2 and column (q + 1) W "
      "/ "
      "2, where p = t11 i' + t12 j' + t13, q = t21 i' + t22 j' + t23, i' = 2 i / output_H - 1 and "
      "j' "
      "= 2 j / output_W - 1";
  type.input_docs = {"x: N x C x H x W",
                     "theta: N x the numbers t11, t12, t13, t21, t22, t23 that st_param does not "
                     "set, in this order"};
  type.output_docs = {"y: N x C x output_H x output_W"};
  type.differences = {
      "Rows come before columns, as in the ports for Caffe. Other programs exchange the two rows "
      "of "
      "theta, and in each its first two numbers."};
  type.origin = "Spatial transformers";
  type.param_fields = {"st_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const SpatialTransformer>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"st_param { transform_type: 'tps' }", {{1, 1, 3, 3}, {1, 6}}, "expected 'affine'"},
      {"st_param { sampler_type: 'nearest' }", {{1, 1, 3, 3}, {1, 6}}, "expected 'bilinear'"},
      {"st_param { output_H: 0 }", {{1, 1, 3, 3}, {1, 6}}, "the size is 0"},
      {"st_param { output_W: -1 }", {{1, 1, 3, 3}, {1, 6}}, "the size is -1"},
      {"st_param { theta_2_1: nan }", {{1, 1, 3, 3}, {1, 5}}, "finite number"},
      {"", {{1, 3, 3}, {1, 6}}, "N x C x H x W"},
      {"", {{1, 1, 0, 3}, {1, 6}}, "with elements"},
      {"", {{2, 1, 3, 3}, {1, 6}}, "each of the 2 items"},
      {"st_param { theta_1_2: 0 }", {{2, 1, 3, 3}, {2, 6}}, "the 5 numbers"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
