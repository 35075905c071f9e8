// The explicit list of built-in layers: static registrars vanish from archives, a list does not.
#include "graph/registry.h"

// Layers whose GPU rows are built where nvcc is there.
#define CREMA_BUILTIN_CUDA_LAYERS(LAYER) \
  LAYER(InnerProduct)                    \
  LAYER(ReLU)

namespace crema {

#define LAYER(name) void Register##name(Registry&);
#include "layers/builtin_layers.def"
#undef LAYER

#ifdef CREMA_HAVE_CUDA
#define CREMA_DECLARE_CUDA(name) void Register##name##Cuda(Registry&);
CREMA_BUILTIN_CUDA_LAYERS(CREMA_DECLARE_CUDA)
#endif

Registry BuiltinRegistry() {
  Registry registry;
#define LAYER(name) Register##name(registry);
#include "layers/builtin_layers.def"
#undef LAYER
#ifdef CREMA_HAVE_CUDA
#define CREMA_REGISTER_CUDA(name) Register##name##Cuda(registry);
  CREMA_BUILTIN_CUDA_LAYERS(CREMA_REGISTER_CUDA)
#endif
  return registry;
}

}  // namespace crema
