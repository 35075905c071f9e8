// DummyData: constant or random blobs, filled again in each forward pass. An element is a function
// of (seed, layer, step, top, element).
// Shapes: `shape`, or the older num, channels, height and width; one for all tops, or one for each.
// Fillers: none (constant 0), one for all tops, or one for each.
#include <array>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/filler.h"

namespace crema {
namespace {

class DummyData final : public Layer {
 public:
  explicit DummyData(const LayerParameter& param) : Layer(param) {
    if (HasOldShape() && Param().shape_size() > 0) {
      FailField(*this, "dummy_data_param.shape",
                "shape and num/channels/height/width say the same thing; give shape alone");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const auto tops = static_cast<int>(context.output_count);
    if (Param().data_filler_size() > 0) CheckCount("data_filler", Param().data_filler_size(), tops);
    LayerInfo info;
    for (int top = 0; top < tops; ++top) {
      const Shape shape = HasOldShape() ? OldShape(top, tops) : NewShape(top, tops);
      Where where{.layer = param().name()};
      where.field = "dummy_data_param.data_filler";
      ValidateFiller(Filler(top), shape, where);
      info.outputs.push_back({shape, context.dtype});
    }
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    for (size_t top = 0; top < args.outputs.size(); ++top) {
      const TensorView& output = args.outputs[top];
      const RandomStream stream(args.context.seed(), MixBits(args.layer_id, top),
                                args.context.step());
      Fill(Filler(static_cast<int>(top)), output.shape(), stream, output, args.context.threads());
    }
  }

 private:
  const DummyDataParameter& Param() const { return param().dummy_data_param(); }

  bool HasOldShape() const {
    return Param().num_size() + Param().channels_size() + Param().height_size() +
               Param().width_size() >
           0;
  }

  void CheckCount(const std::string& field, int count, int tops) const {
    if (count == 1 || count == tops) return;
    FailField(*this, "dummy_data_param." + field,
              StrCat("there are ", count, " values of ", field, " for ", tops,
                     " tops; give one for all, or one for each"));
  }

  const FillerParameter& Filler(int top) const {
    if (Param().data_filler_size() == 0) return FillerParameter::default_instance();
    return Param().data_filler(Param().data_filler_size() == 1 ? 0 : top);
  }

  Shape NewShape(int top, int tops) const {
    if (Param().shape_size() == 0) {
      FailField(*this, "dummy_data_param.shape",
                "DummyData needs a shape: add dummy_data_param { shape { dim: ... } }, one for all "
                "tops or one for each");
    }
    CheckCount("shape", Param().shape_size(), tops);
    const BlobShape& shape = Param().shape(Param().shape_size() == 1 ? 0 : top);
    return MakeShape({shape.dim().data(), static_cast<size_t>(shape.dim_size())});
  }

  Shape OldShape(int top, int tops) const {
    std::array<int64_t, 4> dims{};
    const auto take = [&](size_t axis, const std::string& field, const auto& values) {
      CheckCount(field, values.size(), tops);
      dims[axis] = values.Get(values.size() == 1 ? 0 : top);
    };
    take(0, "num", Param().num());
    take(1, "channels", Param().channels());
    take(2, "height", Param().height());
    take(3, "width", Param().width());
    return MakeShape(dims);
  }

  Shape MakeShape(std::span<const int64_t> dims) const {
    try {
      return Shape(dims);
    } catch (const Error& error) {
      FailField(*this, "dummy_data_param.shape", error.problems().front().message);
    }
  }
};

std::vector<LayerSample> Samples() {
  std::vector<LayerSample> samples = {
      {.name = "zeros", .prototxt = "dummy_data_param { shape { dim: 2 dim: 3 } }", .inputs = {}},
      {.name = "constant",
       .prototxt = "dummy_data_param { shape { dim: 2 } data_filler { value: 1.5 } }",
       .inputs = {}},
      {.name = "old_shape",
       .prototxt = "dummy_data_param { num: 2 num: 3 channels: 1 height: 4 width: 5 "
                   "data_filler { type: 'uniform' min: -1 } data_filler { type: 'gaussian' } }",
       .inputs = {},
       .outputs = 2},
      {.name = "large",
       .prototxt = "dummy_data_param { shape { dim: 3 dim: 7001 } "
                   "data_filler { type: 'gaussian' std: 0.1 sparse: 2 } }",
       .inputs = {}},
      {.name = "two_tops_one_filler",
       .prototxt = "dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } "
                   "data_filler { type: 'xavier' } }",
       .inputs = {},
       .outputs = 2},
      {.name = "unitball",
       .prototxt = "dummy_data_param { shape { dim: 4 dim: 3 } "
                   "data_filler { type: 'positive_unitball' } }",
       .inputs = {}},
      {.name = "bilinear",
       .prototxt = "dummy_data_param { shape { dim: 1 dim: 2 dim: 5 dim: 5 } "
                   "data_filler { type: 'bilinear' } }",
       .inputs = {}},
      {.name = "empty_batch",
       .prototxt = "dummy_data_param { shape { dim: 0 dim: 3 } }",
       .inputs = {}},
  };
  for (LayerSample& sample : samples) sample.gradient = false;
  return samples;
}

std::vector<BadSample> BadSamples() {
  return {
      {"", {}, "DummyData needs a shape"},
      {"dummy_data_param { num: 2 shape { dim: 2 } }", {}, "give shape alone"},
      {"dummy_data_param { num: 2 channels: 1 height: 1 }", {}, "0 values of width for 1 tops"},
      {"dummy_data_param { shape { dim: 1 } shape { dim: 1 } }",
       {},
       "2 values of shape for 3 tops",
       3},
      {"dummy_data_param { shape { dim: 1 } data_filler { } data_filler { } }",
       {},
       "2 values of data_filler for 1 tops"},
      {"dummy_data_param { shape { dim: 1 } data_filler { type: 'gausian' } }",
       {},
       "did you mean 'gaussian'?"},
      {"dummy_data_param { shape { dim: -2 } }", {}, "negative dimension -2"},
  };
}

}  // namespace

void RegisterDummyData(Registry& registry) {
  LayerType type;
  type.name = "DummyData";
  type.category = "input";
  type.summary = "Constant or random blobs, for trials and benchmarks.";
  type.formula = "y = filler";
  type.output_docs = {"one for each shape (one shape or filler serves all)"};
  type.differences = {
      "Random fillers draw other values in each pass, which depend on its number; constants are "
      "filled once."};
  type.param_fields = {"dummy_data_param"};
  type.inputs = {0, 0};
  type.outputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const DummyData>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
