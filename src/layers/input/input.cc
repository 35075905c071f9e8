// Input: blobs that the program sets before each forward pass. Shapes: one for all tops, or one for
// each. With pipeline_param { output: U8 } the first top holds bytes. Computes nothing.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/input/pipeline.h"

namespace crema {
namespace {

class Input final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const auto& shapes = param().input_param().shape();
    const auto tops = static_cast<int>(context.output_count);
    if (shapes.empty()) {
      FailField(*this, "input_param.shape",
                "an input needs a shape: add input_param { shape { dim: ... } }, one for all tops "
                "or one for each");
    }
    if (shapes.size() != 1 && shapes.size() != tops) {
      FailField(*this, "input_param.shape",
                StrCat("there are ", shapes.size(), " shapes for ", tops,
                       " tops; give one for all, or one for each"));
    }
    LayerInfo info;
    info.reach = Reach::kSample;
    for (int i = 0; i < tops; ++i) {
      info.outputs.push_back({ShapeOf(shapes.Get(shapes.size() == 1 ? 0 : i)),
                              i == 0 && GivesBytes(param()) ? DType::kU8 : context.dtype});
    }
    return info;
  }

  void Forward(const ForwardArgs&) const override {}

 private:
  Shape ShapeOf(const BlobShape& shape) const {
    try {
      return Shape(std::span<const int64_t>(shape.dim().data(), size_t(shape.dim_size())));
    } catch (const Error& error) {
      FailField(*this, "input_param.shape", error.problems().front().message);
    }
  }
};

}  // namespace

void RegisterInput(Registry& registry) {
  LayerType type;
  type.name = "Input";
  type.traits = {.fed_by_program = true};
  type.category = "input";
  type.summary = "Blobs that the program sets.";
  type.formula = "y = what was set";
  type.output_docs = {
      "one for each shape (one shape serves all tops); with pipeline_param { output: U8 } the "
      "first holds bytes, like the data layer that it replaces"};
  type.differences = {
      "A blob may get a smaller shape later (Session::Reshape) without a new plan."};
  type.param_fields = {"input_param", "pipeline_param"};
  type.unread_fields = {"pipeline_param.threads",       "pipeline_param.prefetch",
                        "pipeline_param.shuffle",       "pipeline_param.shuffle_buffer",
                        "pipeline_param.on_bad_sample", "pipeline_param.max_bad",
                        "pipeline_param.cache",         "pipeline_param.cache_mb"};
  type.inputs = {0, 0};
  type.outputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Input>(p); };
  type.samples = {
      {.name = "one",
       .prototxt = "input_param { shape { dim: 2 dim: 3 } }",
       .inputs = {},
       .gradient = false},
      {.name = "shared_shape",
       .prototxt = "input_param { shape { dim: 2 } }",
       .inputs = {},
       .outputs = 2,
       .gradient = false},
      {.name = "two_shapes",
       .prototxt = "input_param { shape { dim: 1 dim: 3 dim: 5 dim: 5 } shape { } }",
       .inputs = {},
       .outputs = 2,
       .gradient = false},
      {.name = "bytes",
       .prototxt = "input_param { shape { dim: 2 dim: 4 dim: 4 dim: 3 } shape { dim: 2 } } "
                   "pipeline_param { output: U8 }",
       .inputs = {},
       .outputs = 2,
       .gradient = false},
      {.name = "empty_batch",
       .prototxt = "input_param { shape { dim: 0 dim: 3 } }",
       .inputs = {},
       .gradient = false},
  };
  type.bad_samples = {
      {"", {}, "add input_param { shape"},
      {"input_param { shape { dim: 1 } shape { dim: 2 } }", {}, "2 shapes for 3 tops", 3},
      {"input_param { shape { dim: -1 dim: 2 } }", {}, "negative dimension -1"},
      {"input_param { shape { dim: 65536 dim: 65536 } }", {}, "more than 2147483647 elements"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
