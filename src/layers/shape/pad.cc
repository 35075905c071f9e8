// Pad: adds elements around a blob, on any axes from `axis` on: a constant, the mirror image
// without the border element, the border element, or the blob again. Negative padding cuts elements
// off first. The gradient of an element is the sum of those of all its copies. This is Pad of ONNX.
#include "layers/shape/pad.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/blocked_pixels.h"
#include "layers/part_blocks.h"
#include "layers/zero_gradient.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

template <typename T>
void PadRow(const PadAxes& axes, const T* x, T value, T* y) {
  const int last = axes.size - 1;
  const int64_t before = axes.before[last];
  const auto outside = [&](int64_t i) {
    const int64_t source = x == nullptr ? -1 : axes.Source(last, i);
    y[i] = source < 0 ? value : x[source];
  };
  const int64_t inside = x == nullptr ? 0 : axes.kept[last];
  for (int64_t i = 0; i < before; ++i) outside(i);
  if (inside > 0) {
    std::memcpy(y + before, x + axes.cut[last], static_cast<size_t>(inside) * sizeof(T));
  }
  for (int64_t i = before + inside; i < axes.OutRow(); ++i) outside(i);
}

template <typename T>
void AddRow(const PadAxes& axes, const T* dy, T* dx) {
  for (int64_t i = 0; i < axes.OutRow(); ++i) {
    const int64_t source = axes.Source(axes.size - 1, i);
    if (source >= 0) dx[source] += dy[i];
  }
}

class Pad final : public Layer {
 public:
  explicit Pad(const LayerParameter& param) : Layer(param) {
    const PadParameter& pad = param.pad_param();
    if (pad.pad_size() > 0 && pad.pad_before_size() + pad.pad_after_size() > 0) {
      FailField(*this, "pad_param.pad",
                "pad is for both sides; give it, or pad_before and pad_after");
    }
    if (pad.pad_size() + pad.pad_before_size() + pad.pad_after_size() == 0) {
      FailField(*this, "pad_param.pad", "pad is missing; give it, pad_before or pad_after");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const PadParameter& pad = param().pad_param();
    const int axis = PadAxis(*this, shape);
    CheckCount(pad.pad_size(), "pad", shape, axis);
    CheckCount(pad.pad_before_size(), "pad_before", shape, axis);
    CheckCount(pad.pad_after_size(), "pad_after", shape, axis);
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    for (int a = axis; a < shape.axes(); ++a) {
      CheckAxis(shape, a, PadBefore(*this, a - axis), PadAfter(*this, a - axis));
      dims[static_cast<size_t>(a)] += PadBefore(*this, a - axis) + PadAfter(*this, a - axis);
    }
    const bool batch = axis == 0 && (PadBefore(*this, 0) != 0 || PadAfter(*this, 0) != 0);
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = batch ? Reach::kAll : Reach::kSample;
    info.moves_only = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const TensorView& y = args.outputs[0];
    DispatchFloat(y.dtype(), [&]<typename T>(T) {
      PadAll(args.context, args.inputs[0].shape(), args.inputs[0].data<T>(), y.count(),
             y.data<T>());
    });
  }

  // Writes `count` elements of type T, the type of an element of the blob of shape `in`.
  template <typename T>
  void PadAll(const ExecContext& context, const Shape& in, const T* x, int64_t count, T* y) const {
    if (count == 0) return;
    const PadAxes axes(*this, in);
    const int64_t size = axes.OutRow();
    const T value(param().pad_param().value());
    ParallelFor(context.threads(), count / size, std::max<int64_t>(1, kGrain / size),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t source = axes.RowSource(row);
                    PadRow(axes, source < 0 ? nullptr : x + source, value, y + row * size);
                  }
                });
  }

  void Backward(const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    const ConstTensorView& dy = args.output_grads[0];
    if (dx.count() == 0) return;
    if (dy.count() == 0) return ZeroGradients(args.input_grads);
    const PadAxes axes(*this, dx.shape());
    const bool has_items = axes.size > 1 && !axes.Changes(0);
    const int64_t items = has_items ? axes.out[0] : 1;
    const int64_t rows = dy.count() / axes.OutRow() / items, size = dx.count() / items;
    DispatchFloat(dx.dtype(), [&]<typename T>(T) {
      T* grad = dx.data<T>();
      // One thread takes a whole item, since its rows add to the same elements.
      ParallelFor(args.context.threads(), items, 1, [&](int64_t begin, int64_t end, int) {
        std::fill(grad + begin * size, grad + end * size, T(0));
        for (int64_t row = begin * rows; row < end * rows; ++row) {
          const int64_t source = axes.RowSource(row);
          if (source >= 0) AddRow(axes, dy.data<T>() + row * axes.OutRow(), grad + source);
        }
      });
    });
  }

 private:
  void CheckCount(int given, const char* name, const Shape& shape, int axis) const {
    if (given <= 1 || given == shape.axes() - axis) return;
    FailField(*this, std::string("pad_param.") + name,
              StrCat("there are ", given, " entries of ", name, " for the ", shape.axes() - axis,
                     " axes from axis ", axis, " on; give one for all, or one each"));
  }

  void CheckAxis(const Shape& shape, int axis, int64_t before, int64_t after) const {
    const int64_t kept = shape[axis] + std::min<int64_t>(0, before) + std::min<int64_t>(0, after);
    if (kept < 0) {
      FailInputs(*this,
                 StrCat("axis ", axis, " of the input of shape ", ToString(shape),
                        " is shorter than the ", shape[axis] - kept, " elements that are cut off"));
    }
    const PadParameter::PadMode mode = param().pad_param().mode();
    const int64_t pad = std::max(before, after);
    if (mode == PadParameter::CONSTANT || pad <= 0) return;
    const bool mirror = mode == PadParameter::REFLECT;
    if (mirror ? pad < kept : kept > 0) return;
    FailInputs(*this, StrCat("axis ", axis, " of the input of shape ", ToString(shape), " has no ",
                             pad, " elements to ", mirror ? "mirror" : "repeat",
                             kept < shape[axis] ? " when others are cut off" : ""));
  }
};

// Implementation "blocked": padding of the spatial axes.
Support SupportsBlocks(const OpDesc& query) {
  const Support support = SupportsPixels(query);
  if (!support.yes) return support;
  const Shape &x = query.context.inputs[0].shape, &y = query.info.outputs[0].shape;
  const int axis = PadAxis(query.layer, x);
  const auto changes = [&](int a) {
    return PadBefore(query.layer, a - axis) != 0 || PadAfter(query.layer, a - axis) != 0;
  };
  if (y.axes() != 4 || (axis <= 1 && changes(1))) return Support::No("pads spatial axes only");
  return {};
}

void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const TensorView& y = args.outputs[0];
  DispatchPixels(y.dtype(), [&]<typename Pixel>(Pixel) {
    static_cast<const Pad&>(layer).PadAll(args.context, PixelShape(args.inputs[0].shape()),
                                          static_cast<const Pixel*>(args.inputs[0].raw()),
                                          PixelShape(y.shape()).count(),
                                          static_cast<Pixel*>(y.raw()));
  });
  if (layer.param().pad_param().value() != 0) ClearPadding(y);
}

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  const auto sample = [&](const char* name, const char* fields) {
    LayerSample made;
    made.name = name;
    made.prototxt = std::string("pad_param { ") + fields + " }";
    made.inputs = {input};
    return made;
  };
  std::vector<LayerSample> samples = {
      sample("constant", "pad: 1 value: 0.5"),
      sample("reflect", "mode: REFLECT pad: 3 pad: 2"),
      sample("replicate", "mode: REPLICATE pad: 2"),
      sample("sides", "mode: REFLECT pad_before: 0 pad_before: 2 pad_after: 3 pad_after: 1"),
      sample("before_only", "pad_before: 2 axis: 3"),
      sample("after_only", "mode: REPLICATE pad_after: 2 axis: -1"),
      sample("all_axes", "mode: REPLICATE axis: 0 pad: 1"),
      sample("channels", "axis: 1 pad: 1 pad: 0 pad: 0"),
      sample("five_axes", "mode: REFLECT pad: 1 pad: 0 pad: 2"),
      sample("one_axis", "axis: 0 pad: 2"),
      sample("empty_batch", "mode: REFLECT pad: 1"),
      sample("large", "mode: REFLECT pad: 20"),
      sample("empty_plane", "pad: 1 value: 2"),
      sample("wrap", "mode: WRAP pad: 2"),
      sample("wrap_twice", "mode: WRAP axis: 3 pad_before: 7 pad_after: 11"),
      sample("cut", "pad_before: -1 pad_before: 2 pad_after: 0 pad_after: -3"),
      sample("cut_and_mirror",
             "mode: REFLECT pad_before: -1 pad_before: 2 pad_after: 2 pad_after: -2"),
      sample("cut_and_replicate", "mode: REPLICATE axis: 3 pad_before: 2 pad_after: -2"),
      sample("cut_and_wrap", "mode: WRAP axis: 1 pad_before: -1 pad_after: 1"),
      sample("cut_all", "pad_before: -4 pad_after: 0"),
      sample("batch_is_kept", "axis: 0 pad: 0 pad: 0 pad: 1 pad: 1"),
      sample("blocks", "pad: 1 pad: 2 value: 0.5"),
      sample("blocks_mirror", "mode: REFLECT pad: 2"),
  };
  samples[8].inputs = {{.shape = {1, 2, 3, 2, 4}}};
  samples[9].inputs = {{.shape = {3}}};
  samples[10].inputs = {{.shape = {0, 2, 3, 3}}};
  samples[11].inputs = {{.shape = {2, 2, 60, 70}}};
  samples[12].inputs = {{.shape = {1, 2, 0, 1}}};
  samples[21].inputs = samples[22].inputs = {{.shape = {2, 35, 4, 3}}};
  return samples;
}

}  // namespace

void RegisterPad(Registry& registry) {
  LayerType type;
  type.name = "Pad";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary =
      "Puts elements around a blob: a constant, its mirror image, its border, or its other end.";
  type.formula =
      "y[i] = x[i - before] inside; outside: value, x[|i - before|], the border's, or x[(i - "
      "before) "
      "mod n]. Negative padding cuts off, before anything is added. It is Pad of ONNX";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"y: the shape of x, longer by both paddings in each axis from `axis` on"};
  type.origin = "Crema";
  type.param_fields = {"pad_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Pad>(p); };
  const ImplementationPtr blocked =
      MakeBlockedImplementation({.supports = SupportsBlocks, .forward = ForwardBlocked});
  type.implementations = {blocked, StoringBFloat16(blocked)};
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect) {
    return BadSample{std::string("pad_param { ") + fields + " }", {{1, 2, 3, 0}}, expect};
  };
  type.bad_samples = {
      bad("", "pad is missing"),
      bad("pad: 1 pad_after: 1", "pad is for both sides"),
      bad("pad: 1 axis: 4", "axis 4 is outside"),
      bad("pad: 1 pad: 1 pad: 1", "3 entries of pad for the 2 axes"),
      bad("axis: 1 pad_before: 1 pad_before: 1", "2 entries of pad_before for the 3 axes"),
      bad("mode: REFLECT pad: 3 pad: 0", "has no 3 elements to mirror"),
      bad("mode: REPLICATE pad: 1", "to repeat"),
      bad("mode: WRAP pad: 1", "to repeat"),
      bad("axis: 1 pad: -2 pad: 0 pad: 0", "shorter than the 4 elements"),
      bad("axis: 2 mode: REFLECT pad_before: -1 pad_before: 0 pad_after: 2 pad_after: 0",
          "no 2 elements to mirror when others are cut off"),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
