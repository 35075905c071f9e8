// AbsVal: y = |x|, element by element. dx = dy * sign(x), 0 where x is 0. Backward reads x, since y
// has lost the sign.
#include "layers/activation/elementwise.h"

namespace crema {

void RegisterAbsVal(Registry& registry) {
  auto type = ElementwiseType<AbsValFormula>("AbsVal", "Absolute value.", "y = |x|");
  type.differences = {"Top and bottom may have one name; Caffe refuses that."};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .has_kink = true}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {5, 9001}, .has_kink = true}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}, .low = 0.5}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
