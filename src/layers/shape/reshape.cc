// Reshape: replaces the dimensions of axes [axis, axis + num_axes). The elements stay where they
// are, so the output is a view of the input.
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

class Reshape final : public Layer {
 public:
  explicit Reshape(const LayerParameter& param) : Layer(param) {
    const ReshapeParameter& reshape = param.reshape_param();
    int inferred = 0;
    for (int64_t dim : reshape.shape().dim()) {
      if (dim < -1) {
        FailField(*this, "reshape_param.shape",
                  StrCat("a dimension is ", dim,
                         "; give 0 to copy one, -1 for what is left, or the dimension itself"));
      }
      inferred += dim == -1 ? 1 : 0;
    }
    if (inferred > 1) {
      FailField(*this, "reshape_param.shape",
                StrCat(inferred, " dimensions are -1; only one can be inferred"));
    }
    if (reshape.num_axes() < -1) {
      FailField(
          *this, "reshape_param.num_axes",
          StrCat("num_axes must be -1 (all that follow) or more, but it is ", reshape.num_axes()));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const Range range = Replaced(shape);
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + range.begin);
    for (int64_t dim : NewShape(shape, range)) dims.push_back(dim);
    dims.insert(dims.end(), shape.dims().begin() + range.end, shape.dims().end());
    const Shape output{std::span<const int64_t>(dims)};
    if (output.count() != shape.count()) {
      FailField(
          *this, "reshape_param.shape",
          StrCat("the new shape ", ToString(output), " has ", output.count(),
                 " elements, but the input of shape ", ToString(shape), " has ", shape.count()));
    }
    LayerInfo info;
    info.outputs = {{output, context.inputs[0].dtype}};
    // Elements keep their order, so samples do if the batch size does.
    const bool keeps_batch = shape.axes() > 0 && output.axes() > 0 && output[0] == shape[0];
    info.reach = keeps_batch ? Reach::kSample : Reach::kAll;
    info.moves_only = true;
    info.view = true;
    return info;
  }

  // Never called: the output is a view.
  void Forward(const ForwardArgs&) const override { CREMA_CHECK(false); }

 private:
  struct Range {
    int begin;
    int end;
  };

  // Unlike elsewhere, axis -1 means the position after the last axis.
  Range Replaced(const Shape& shape) const {
    const ReshapeParameter& reshape = param().reshape_param();
    const int64_t axes = shape.axes();
    const int64_t begin = reshape.axis() >= 0 ? reshape.axis() : axes + reshape.axis() + 1;
    if (begin < 0 || begin > axes) {
      FailField(*this, "reshape_param.axis",
                StrCat("axis ", reshape.axis(), " is outside a blob of shape ", ToString(shape),
                       " (allowed: ", -axes - 1, " to ", axes, ")"));
    }
    const int64_t end = reshape.num_axes() < 0 ? axes : begin + reshape.num_axes();
    if (end > axes) {
      FailField(*this, "reshape_param.num_axes",
                StrCat(reshape.num_axes(), " axes from axis ", begin,
                       " on are more than a blob of shape ", ToString(shape), " has"));
    }
    return {static_cast<int>(begin), static_cast<int>(end)};
  }

  std::vector<int64_t> NewShape(const Shape& shape, Range range) const {
    std::vector<int64_t> sizes;
    std::vector<bool> copied(static_cast<size_t>(shape.axes()), false);
    for (int64_t dim : param().reshape_param().shape().dim()) {
      if (dim == 0) {
        const int axis = range.begin + static_cast<int>(sizes.size());
        if (axis >= shape.axes()) {
          FailField(*this, "reshape_param.shape",
                    StrCat("dimension 0 copies that of axis ", axis, ", which the input of shape ",
                           ToString(shape), " does not have"));
        }
        copied[static_cast<size_t>(axis)] = true;
        dim = shape[axis];
      }
      sizes.push_back(dim);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == -1) sizes[i] = Inferred(shape, range, sizes, copied);
    }
    return sizes;
  }

  // Returns the dimension that makes the numbers of elements equal. Dimensions copied from a
  // replaced axis are on both sides and are left out, so that they may be 0 (an empty batch).
  int64_t Inferred(const Shape& shape, Range range, const std::vector<int64_t>& sizes,
                   const std::vector<bool>& copied) const {
    int64_t old_count = 1;
    for (int a = range.begin; a < range.end; ++a) {
      if (!copied[static_cast<size_t>(a)]) old_count *= shape[a];
    }
    std::vector<int64_t> others;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int axis = range.begin + static_cast<int>(i);
      const bool same = axis < range.end && copied[static_cast<size_t>(axis)];
      if (sizes[i] != -1 && !same) others.push_back(sizes[i]);
    }
    const int64_t new_count = Shape(std::span<const int64_t>(others)).count();
    if (new_count == 0 || old_count % new_count != 0) {
      FailField(*this, "reshape_param.shape",
                StrCat("no dimension in place of -1 fits: ", old_count,
                       " elements cannot be spread over ", new_count, " (input of shape ",
                       ToString(shape), ")"));
    }
    return old_count / new_count;
  }
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  const auto sample = [&](const char* name, const char* fields) {
    LayerSample made;
    made.name = name;
    made.prototxt = std::string("reshape_param { ") + fields + " }";
    made.inputs = {input};
    return made;
  };
  std::vector<LayerSample> samples = {
      sample("copy_and_infer", "shape { dim: 0 dim: 6 dim: -1 }"),
      sample("whole", "shape { dim: 120 }"),
      sample("from_axis", "axis: 2 shape { dim: 10 dim: 2 }"),
      sample("middle", "axis: 1 num_axes: 2 shape { dim: 2 dim: -1 }"),
      sample("negative_axis", "axis: -2 num_axes: 1 shape { dim: 5 }"),
      sample("append_axes", "axis: -1 shape { dim: 1 dim: 1 }"),
      sample("insert_axes", "axis: 1 num_axes: 0 shape { dim: 1 dim: -1 }"),
      sample("empty_batch", "shape { dim: 0 dim: -1 }"),
      sample("scalar", ""),
  };
  samples[7].inputs = {{.shape = {0, 3, 2}}};
  samples[8].inputs = {{.shape = {1, 1}}};
  return samples;
}

}  // namespace

void RegisterReshape(Registry& registry) {
  LayerType type;
  type.name = "Reshape";
  type.category = "shape";
  type.summary = "Gives a blob another shape and leaves its elements as they are.";
  type.formula = "y = x, row by row, in the new shape";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the same elements in the same memory"};
  type.differences = {
      "-1 can be inferred for an empty batch whose dimension 0 is copied; Caffe divides by 0."};
  type.param_fields = {"reshape_param"};
  type.unread_fields = {"reshape_param.pixelshuffler"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Reshape>(p); };
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect) {
    return BadSample{std::string("reshape_param { ") + fields + " }", {{2, 3, 4}}, expect};
  };
  type.bad_samples = {
      bad("shape { dim: -2 }", "a dimension is -2"),
      bad("shape { dim: -1 dim: -1 }", "only one can be inferred"),
      bad("num_axes: -2 shape { dim: -1 }", "num_axes must be -1"),
      bad("axis: 4 shape { dim: -1 }", "axis 4 is outside"),
      bad("axis: -5 shape { dim: -1 }", "axis -5 is outside"),
      bad("axis: 2 num_axes: 2 shape { dim: -1 }", "2 axes from axis 2"),
      bad("shape { dim: 0 dim: 0 dim: 0 dim: 0 }", "axis 3, which the input"),
      bad("shape { dim: 5 dim: -1 }", "24 elements cannot be spread over 5"),
      bad("shape { dim: 5 dim: 5 }", "has 25 elements"),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
