// Silence: reads blobs and has no output, so that they are not listed as outputs of the net. The
// gradients of its inputs are 0.
#include "crema.pb.h"
#include "graph/input_types.h"
#include "graph/registry.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Silence final : public MovingLayer, public AnyInputType {
 public:
  using MovingLayer::MovingLayer;

  LayerInfo Infer(const InferContext&) const override { return {}; }

  void MoveForward(const Mover&, const ForwardArgs&) const override {}

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    for (const TensorView& grad : args.input_grads) {
      if (!grad.empty()) mover.Zero(grad);
    }
  }
};

}  // namespace

void RegisterSilence(Registry& registry) {
  LayerType type;
  type.name = "Silence";
  type.category = "shape";
  type.summary = "Reads blobs that no other layer reads.";
  type.formula = "no output";
  type.input_docs = {"any number of blobs of any shape"};
  type.inputs = {1, Arity::kAny};
  type.outputs = {0, 0};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Silence>(p); };
  type.samples = {
      {.name = "one", .prototxt = "", .inputs = {{.shape = {2, 3}}}, .outputs = 0},
      {.name = "three",
       .prototxt = "",
       .inputs = {{.shape = {2, 3}}, {.shape = {}}, {.shape = {1, 4, 2, 2, 2}}},
       .outputs = 0},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}, .outputs = 0},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
