// GridSample: y[n, c, o..] = x[n, c] at the point grid[n, o..], whose numbers run from -1 to 1 over
// each spatial axis, the last axis first. Points between elements are interpolated, points outside
// read zeros, the border or the mirror image. This is GridSample of ONNX (and grid_sample of
// PyTorch, but for points outside with CUBIC: they are moved inside before interpolation).
// dx collects dy times the weights; the gradient of the grid is dy times x times the derivatives of
// the weights, and 0 for NEAREST.
#include "layers/sampling/grid_sample.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/sampling/grid_points.h"

namespace crema {
namespace {

class GridSample final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const Shape& grid = context.inputs[1].shape;
    CheckShapes(x, grid);
    std::vector<int64_t> dims = {x[0], x[1]};
    dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.moves_only = Mode() == GridSampleParameter::NEAREST &&
                      param().grid_sample_param().padding() != GridSampleParameter::ZEROS;
    info.backward_reads_input = {Mode() != GridSampleParameter::NEAREST, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView &x = args.inputs[0], &grid = args.inputs[1];
    const GridSampling s(*this, x.shape(), grid.shape());
    DispatchFloat(x.dtype(), [&]<typename T>(T) {
      SamplePoints(args.context.threads(), GridPoints<T>{s, grid.data<T>()}, x.data<T>(),
                   args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const TensorView &dx = args.input_grads[0], &dgrid = args.input_grads[1];
    const ConstTensorView &dy = args.output_grads[0], &grid = args.inputs[1];
    const GridSampling s(*this, args.inputs[0].shape(), grid.shape());
    DispatchFloat(dy.dtype(), [&]<typename T>(T) {
      const GridPoints<T> points{s, grid.data<T>()};
      const int threads = args.context.threads();
      if (!dx.empty()) SpreadToPlanes(threads, points, dy.data<T>(), dx.data<T>());
      if (dgrid.empty()) return;
      if (Mode() == GridSampleParameter::NEAREST) {
        std::fill_n(dgrid.data<T>(), dgrid.count(), T(0));
        return;
      }
      SlopesOfPoints(threads, points, args.inputs[0].data<T>(), dy.data<T>(),
                     [&](int64_t at, const double* slopes) {
                       T* to = dgrid.data<T>() + at * s.axes;
                       for (int a = 0; a < s.axes; ++a) to[a] = static_cast<T>(slopes[a]);
                     });
    });
  }

 private:
  GridSampleParameter::Interpolation Mode() const {
    return param().grid_sample_param().interpolation();
  }

  void CheckShapes(const Shape& x, const Shape& grid) const {
    const int axes = x.axes() - 2;
    if (axes < 1 || axes > GridTaps::kAxes) {
      FailInputs(*this, StrCat("x needs 1 to 3 spatial axes after batch and channels, but it is ",
                               ToString(x)));
    }
    if (Mode() == GridSampleParameter::CUBIC && axes != 2) {
      FailField(*this, "grid_sample_param.interpolation",
                StrCat("CUBIC is for 2 spatial axes, but x has ", axes));
    }
    if (grid.axes() != x.axes() || grid[0] != x[0] || grid[grid.axes() - 1] != axes) {
      FailInputs(*this, StrCat("for x of shape ", ToString(x), " the grid needs ", x.axes(),
                               " axes, the first of size ", x[0], " and the last of size ", axes,
                               ", but it is ", ToString(grid)));
    }
    if (x.count(2) == 0) {
      FailInputs(*this, StrCat("x of shape ", ToString(x), " has no elements to sample"));
    }
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> x,
                         std::vector<int64_t> grid) {
    return LayerSample{
        .name = std::move(name),
        .prototxt = "grid_sample_param { " + fields + " }",
        .inputs = {{.shape = std::move(x)}, {.shape = std::move(grid), .low = -1.3, .high = 1.3}}};
  };
  const std::vector<int64_t> plane = {2, 3, 4, 5}, points = {2, 3, 2, 2};
  return {
      sample("linear", "", plane, points),
      sample("linear_border", "padding: BORDER", plane, points),
      sample("linear_reflection", "padding: REFLECTION align_corners: true", plane, points),
      sample("corners", "align_corners: true", plane, points),
      sample("nearest", "interpolation: NEAREST", plane, points),
      sample("nearest_reflection", "interpolation: NEAREST padding: REFLECTION", plane, points),
      sample("cubic", "interpolation: CUBIC", plane, points),
      sample("cubic_border", "interpolation: CUBIC padding: BORDER", plane, points),
      sample("cubic_reflection", "interpolation: CUBIC padding: REFLECTION", plane, points),
      sample("line", "padding: BORDER align_corners: true", {2, 2, 6}, {2, 5, 1}),
      sample("volume", "padding: REFLECTION", {2, 2, 3, 4, 2}, {2, 2, 2, 3, 3}),
      sample("one_row", "padding: REFLECTION align_corners: true", {2, 2, 1, 3}, {2, 2, 2, 2}),
      sample("large", "", {2, 3, 20, 30}, {2, 40, 25, 2}),
      sample("no_points", "", {2, 3, 4, 5}, {2, 0, 3, 2}),
      sample("empty_batch", "", {0, 3, 4, 5}, {0, 2, 3, 2}),
  };
}

}  // namespace

void RegisterGridSample(Registry& registry) {
  LayerType type;
  type.name = "GridSample";
  type.category = "sampling";
  type.summary = "Samples planes at the points of a grid, such as a warped image.";
  type.formula =
      "y[n, c, i, j] = x[n, c] interpolated at the row and column that (grid[n, i, j, 1], grid[n, "
      "i, "
      "j, 0]) name: -1 and 1 are the borders, or with align_corners the border elements. It is "
      "GridSample of ONNX";
  type.input_docs = {"x: N x C and 1 to 3 spatial axes",
                     "grid: N, as many axes as x has spatial ones, and their number; the last "
                     "spatial axis of x comes first"};
  type.output_docs = {"y: N x C and the axes of the grid between its first and last"};
  type.origin = "Crema";
  type.param_fields = {"grid_sample_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const GridSample>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{1, 2}, {1, 2}}, "1 to 3 spatial axes"},
      {"", {{1, 2, 3, 3, 3, 3}, {1, 2, 3, 3, 3, 4}}, "1 to 3 spatial axes"},
      {"grid_sample_param { interpolation: CUBIC }", {{1, 2, 3}, {1, 2, 1}}, "2 spatial axes"},
      {"", {{1, 2, 3, 3}, {1, 2, 2, 3}}, "the last of size 2"},
      {"", {{2, 2, 3, 3}, {1, 2, 2, 2}}, "the first of size 2"},
      {"", {{1, 2, 3, 3}, {1, 2, 2}}, "the grid needs 4 axes"},
      {"", {{1, 2, 0, 3}, {1, 2, 2, 2}}, "no elements to sample"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
