#include "layers/gpu_rows.h"
#include "layers/half_rows.h"
#include "layers/tf32_rows.h"
#ifdef CREMA_HAVE_CUDNN
#include "layers/cudnn_rows.h"
#endif

namespace crema {

#define LAYER(name) void Register##name##Cuda(Registry&);
#include "layers/gpu_rows.def"
#undef LAYER

void AddGpuRows(Registry* registry) {
#define LAYER(name) Register##name##Cuda(*registry);
#include "layers/gpu_rows.def"
#undef LAYER
#ifdef CREMA_HAVE_CUDNN
  AddCudnnRows(registry);
#endif
  AddHalfRows(registry);
  AddTf32Rows(registry);
}

}  // namespace crema
