#include "core/device_memory.h"

#include <algorithm>

namespace crema {

void FillWith(const ExecContext& context, const TensorView& view, float value) {
  if (context.queue() != nullptr) {
    return context.queue()->Fill(view.dtype(), view.count(), value, view.raw());
  }
  DispatchStored(view.dtype(), [&]<typename T>(T) { std::ranges::fill(view.span<T>(), T(value)); });
}

}  // namespace crema
