#include "support/gpu_layers.h"

#ifndef CREMA_HAVE_CUDA
#include "layers/gpu_rows.h"
#endif

namespace crema::test {

const Registry& LayersWithGpuRows() {
  static const Registry registry = [] {
    Registry made = BuiltinRegistry();
#ifndef CREMA_HAVE_CUDA
    AddGpuRows(&made);
#endif
    return made;
  }();
  return registry;
}

}  // namespace crema::test
