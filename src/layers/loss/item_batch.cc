#include "layers/loss/item_batch.h"

#include <algorithm>

#include "core/strings.h"

namespace crema {

void CheckEqualItems(const Layer& layer, std::span<const BlobSpec> inputs) {
  const Shape& first = inputs[0].shape;
  for (const BlobSpec& input : inputs) {
    const Shape& shape = input.shape;
    if (first.axes() > 0 && shape.axes() > 0 && first[0] == shape[0] &&
        first.count(1) == shape.count(1)) {
      continue;
    }
    FailInputs(layer, StrCat("the inputs need the same batch size and the same number of values "
                             "for each item, but two of their shapes are ",
                             ToString(first), " and ",
                             ToString(first.axes() == 0 ? inputs[1].shape : shape)));
  }
}

LayerInfo LossInfo(const InferContext& context, size_t gradients) {
  LayerInfo info;
  info.outputs = {{Shape{}, context.inputs[0].dtype}};
  info.backward_reads_input.assign(context.inputs.size(), true);
  info.gradient_forbidden.assign(context.inputs.size(), true);
  std::fill_n(info.gradient_forbidden.begin(), gradients, false);
  return info;
}

}  // namespace crema
