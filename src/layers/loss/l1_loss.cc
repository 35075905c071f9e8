// L1Loss: loss = sum |a - b| / N. A PairLoss with cost |d| and slope sign(d), which is 0 at 0.
#include <memory>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/pair_loss.h"
#include "layers/loss/pair_rules.h"

namespace crema {

void RegisterL1Loss(Registry& registry) {
  LayerType type;
  type.name = "L1Loss";
  type.category = "loss";
  type.summary = "Sum of magnitudes of the differences of two blobs, for each item.";
  type.formula = "loss = sum |a - b| / N";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each, in any shape; may get a gradient "
                     "too"};
  type.output_docs = {"loss: scalar"};
  type.origin = "NVCaffe";
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const PairLoss<Magnitude>>(p);
  };
  const auto between = [](std::vector<int64_t> shape, double low, double high) {
    return SampleInput{.shape = std::move(shape), .low = low, .high = high};
  };
  type.samples = {
      {.name = "above",
       .prototxt = "",
       .inputs = {between({4, 3}, 1.1, 2), between({4, 3}, -1, 1)}},
      {.name = "below",
       .prototxt = "",
       .inputs = {between({2, 3, 2}, -1, 1), between({2, 6}, 1.1, 2)}},
      {.name = "both_sides",
       .prototxt = "",
       .inputs = {{.shape = {3, 5}, .has_kink = true}, between({3, 5}, -0.04, 0.04)}},
      {.name = "large",
       .prototxt = "",
       .inputs = {between({3, 33301}, 1.1, 2), between({3, 33301}, -1, 1)}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {3, 4}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{}, {}}, .expect = expect},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
