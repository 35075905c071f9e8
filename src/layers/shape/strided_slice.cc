// StridedSlice: every step-th element from start on, before end, of each of `axes`: ONNX's Slice,
// NumPy's x[start:end:step]. The gradient is 0 at the other elements.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

// The elements start, start + step, .. of one axis.
struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Returns the range of an axis of this size. Positions from the end are negative; those outside are
// moved to the border.
Range RangeOf(int64_t size, int64_t start, int64_t end, int64_t step) {
  const auto inside = [&](int64_t position) {
    if (position < 0) position += size;
    // Backwards, the border before the first element is -1.
    return step > 0 ? std::clamp<int64_t>(position, 0, size)
                    : std::max<int64_t>(-1, std::min(position, size - 1));
  };
  Range range{.start = inside(start), .step = step};
  const int64_t distance = step > 0 ? inside(end) - range.start : range.start - inside(end);
  if (distance <= 0) return {.start = 0, .step = 1};
  // No step may overflow when it is made positive; one beyond the axis takes the first element.
  const int64_t stride = step > 0 ? step : step <= -size ? size : -step;
  range.count = (distance - 1) / stride + 1;
  if (range.count == 1) range.step = 1;
  return range;
}

class StridedSlice final : public MovingLayer {
 public:
  explicit StridedSlice(const LayerParameter& param) : MovingLayer(param) {
    const StridedSliceParameter& slice = param.strided_slice_param();
    if (slice.start_size() == 0) {
      FailField(*this, "strided_slice_param.start", "start is missing; give one for each axis");
    }
    CheckCount("end", slice.end_size(), false);
    CheckCount("step", slice.step_size(), true);
    CheckCount("axes", slice.axes_size(), true);
    for (const int64_t step : slice.step()) {
      if (step == 0) FailField(*this, "strided_slice_param.step", "step must not be 0");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const std::vector<Range> ranges = Ranges(shape);
    std::vector<int64_t> dims;
    for (const Range& range : ranges) dims.push_back(range.count);
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    if (shape.axes() > 0 && !CutsBatch(shape)) info.reach = Reach::kSample;
    info.moves_only = true;
    return info;
  }

  void MoveForward(const Mover& mover, const ForwardArgs& args) const override {
    if (args.outputs[0].count() == 0) return;
    mover.Copy(Part(args.inputs[0].shape(), args.outputs[0].shape()), args.inputs[0],
               args.outputs[0]);
  }

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    const ConstTensorView& dy = args.output_grads[0];
    if (dx.empty()) return;
    mover.Zero(dx);
    if (dy.shape().count() == 0) return;
    mover.Copy(Part(dx.shape(), dy.shape()).Reversed(), dy, dx);
  }

 private:
  const StridedSliceParameter& Slicing() const { return param().strided_slice_param(); }

  void CheckCount(const char* name, int count, bool optional) const {
    const int starts = Slicing().start_size();
    if (count == starts || (optional && count == 0)) return;
    FailField(*this, std::string("strided_slice_param.") + name,
              StrCat("there are ", count, " entries of ", name, ", but ", starts,
                     " of start; give as many"));
  }

  int AxisAt(const Shape& shape, int index) const {
    const int64_t axis = Slicing().axes_size() == 0 ? index : Slicing().axes(index);
    return LayerAxis(*this, shape, axis, "strided_slice_param.axes");
  }

  // Returns true if the entries of axis 0 are chosen by their number.
  bool CutsBatch(const Shape& shape) const {
    for (int k = 0; k < Slicing().start_size(); ++k) {
      const int64_t step = Slicing().step_size() == 0 ? 1 : Slicing().step(k);
      const bool all = step == 1 && Slicing().start(k) == 0 &&
                       Slicing().end(k) >= std::numeric_limits<int32_t>::max();
      if (AxisAt(shape, k) == 0 && !all) return true;
    }
    return false;
  }

  std::vector<Range> Ranges(const Shape& shape) const {
    std::vector<Range> ranges;
    for (const int64_t size : shape.dims()) ranges.push_back({.count = size});
    std::vector<bool> cut(ranges.size());
    for (int k = 0; k < Slicing().start_size(); ++k) {
      const auto axis = static_cast<size_t>(AxisAt(shape, k));
      if (cut[axis]) {
        FailField(*this, "strided_slice_param.axes",
                  StrCat("axis ", axis, " is listed twice; give each axis once"));
      }
      cut[axis] = true;
      ranges[axis] = RangeOf(shape[static_cast<int>(axis)], Slicing().start(k), Slicing().end(k),
                             Slicing().step_size() == 0 ? 1 : Slicing().step(k));
    }
    return ranges;
  }

  // Returns the block that copies from the whole to the part, which is not empty.
  StridedBlock Part(const Shape& whole, const Shape& part) const {
    StridedBlock block;
    const std::vector<Range> ranges = Ranges(whole);
    for (int a = 0; a < whole.axes(); ++a) {
      const Range& range = ranges[static_cast<size_t>(a)];
      block.Add(range.count, range.step * whole.count(a + 1), part.count(a + 1));
      block.from += range.start * whole.count(a + 1);
    }
    return block;
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "strided_slice_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  return {
      sample("middle", "start: 1 end: 4 axes: 1", {2, 6, 3}),
      sample("steps", "start: 0 start: 1 end: 5 end: 9 step: 2 step: 3 axes: 1 axes: 2", {2, 6, 9}),
      sample("backwards", "start: -1 end: -100 step: -1 axes: -1", {2, 3, 5}),
      sample("two_backwards", "start: 4 end: 0 step: -2 axes: 1", {2, 6, 3}),
      sample("from_end", "start: -3 end: -1 axes: 2", {2, 3, 5}),
      sample("first_axes", "start: 1 start: 0 end: 3 end: 2", {4, 3, 2}),
      sample("all_samples", "start: 0 start: 1 end: 9223372036854775807 end: 2", {4, 3, 2}),
      sample("outside", "start: -20 end: 20 step: 3 axes: 1", {2, 7}),
      sample("largest_step", "start: 5 end: 0 step: -9223372036854775808 axes: 1", {2, 7}),
      sample("nothing", "start: 3 end: 3 axes: 1", {2, 7}),
      sample("large", "start: 3 end: 20000 step: 2 axes: 1", {3, 20001}),
      sample("one_axis", "start: 1 end: 6 step: 2", {7}),
      sample("empty_batch", "start: 1 end: 2 axes: 1", {0, 4}),
      sample("empty_axis", "start: -1 end: -5 step: -1 axes: 1", {2, 0}),
  };
}

}  // namespace

void RegisterStridedSlice(Registry& registry) {
  LayerType type;
  type.name = "StridedSlice";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Takes every n-th element of some axes, forwards or backwards.";
  type.formula =
      "y[i, j, ..] = x[start_i + i step_i, start_j + j step_j, ..], up to the element before end. "
      "It is Slice of ONNX, and NumPy's x[start:end:step]";
  type.input_docs = {"x: any shape with the axes"};
  type.output_docs = {"y: the shape of x with the taken elements of the axes; there may be none"};
  type.origin = "Crema";
  type.param_fields = {"strided_slice_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const StridedSlice>(p); };
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect) {
    return BadSample{std::string("strided_slice_param { ") + fields + " }", {{2, 6}}, expect};
  };
  type.bad_samples = {
      bad("", "start is missing"),
      bad("start: 1", "0 entries of end, but 1 of start"),
      bad("start: 1 end: 2 step: 1 step: 1", "2 entries of step, but 1 of start"),
      bad("start: 1 end: 2 axes: 0 axes: 1", "2 entries of axes, but 1 of start"),
      bad("start: 1 end: 2 step: 0", "must not be 0"),
      bad("start: 1 end: 2 axes: 2", "axis 2 is outside"),
      bad("start: 1 start: 1 start: 1 end: 2 end: 2 end: 2", "axis 2 is outside"),
      bad("start: 1 start: 1 end: 2 end: 2 axes: 1 axes: -1", "axis 1 is listed twice"),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
