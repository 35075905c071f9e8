#include "layers/gpu_rows.h"
#include "layers/half_rows.h"

namespace crema {

#define LAYER(name) void Register##name##Cuda(Registry&);
#include "layers/gpu_rows.def"
#undef LAYER

void AddGpuRows(Registry* registry) {
#define LAYER(name) Register##name##Cuda(*registry);
#include "layers/gpu_rows.def"
#undef LAYER
  AddHalfRows(registry);
}

}  // namespace crema
