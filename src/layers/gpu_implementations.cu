#include "layers/gpu_implementations.h"
#include "layers/half_implementations.h"
#include "layers/tf32_implementations.h"
#ifdef CREMA_HAVE_CUDNN
#include "layers/cudnn_implementations.h"
#endif

namespace crema {

#define LAYER(name) void Register##name##Cuda(Registry&);
#include "layers/gpu_implementations.def"
#undef LAYER

void AddGpuImplementations(Registry* registry) {
#define LAYER(name) Register##name##Cuda(*registry);
#include "layers/gpu_implementations.def"
#undef LAYER
#ifdef CREMA_HAVE_CUDNN
  AddCudnnImplementations(registry);
#endif
  AddHalfImplementations(registry);
  AddTf32Implementations(registry);
}

}  // namespace crema
