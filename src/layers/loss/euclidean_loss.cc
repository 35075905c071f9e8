// EuclideanLoss: loss = sum (a - b)^2 / (2 N). A PairLoss with cost d^2 / 2 and slope d.
#include <memory>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/pair_loss.h"
#include "layers/loss/pair_rules.h"

namespace crema {

void RegisterEuclideanLoss(Registry& registry) {
  LayerType type;
  type.name = "EuclideanLoss";
  type.category = "loss";
  type.summary = "Half the mean squared distance of two blobs.";
  type.formula = "loss = sum (a - b)^2 / (2 N)";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each, in any shape; may get a gradient "
                     "too"};
  type.output_docs = {"loss: scalar"};
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const PairLoss<HalfSquare>>(p);
  };
  type.samples = {
      {.name = "rows", .prototxt = "", .inputs = {{.shape = {4, 3}}, {.shape = {4, 3}}}},
      {.name = "other_shape",
       .prototxt = "",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 12, 1, 1}}}},
      {.name = "one_value_each", .prototxt = "", .inputs = {{.shape = {5}}, {.shape = {5, 1}}}},
      {.name = "batch_1", .prototxt = "", .inputs = {{.shape = {1, 7}}, {.shape = {1, 7}}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 33301}}, {.shape = {3, 33301}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {3, 4}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 2}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{}, {1}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{1}, {}}, .expect = expect},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
