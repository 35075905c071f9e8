#include "layers/gpu_implementations.h"

namespace crema {

#define CUDA(name) void Register##name##Cuda(Registry&);
#include "layers/builtin_layers.def"

void AddGpuImplementations(Registry* registry) {
#define CUDA(name) Register##name##Cuda(*registry);
#include "layers/builtin_layers.def"
#ifdef CREMA_HAVE_CUDNN
  AddCudnnImplementations(registry);
#endif
  AddHalfImplementations(registry);
  AddTf32Implementations(registry);
}

}  // namespace crema
