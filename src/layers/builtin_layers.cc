// The explicit list of built-in layers: static registrars vanish from archives, a list does not.
#include "graph/registry.h"
#ifdef CREMA_HAVE_CUDA
#include "layers/gpu_implementations.h"
#endif

namespace crema {

#define LAYER(name) void Register##name(Registry&);
#include "layers/builtin_layers.def"
#undef LAYER

Registry BuiltinRegistry() {
  Registry registry;
#define LAYER(name) Register##name(registry);
#include "layers/builtin_layers.def"
#undef LAYER
#ifdef CREMA_HAVE_CUDA
  AddGpuImplementations(&registry);
#endif
  return registry;
}

}  // namespace crema
