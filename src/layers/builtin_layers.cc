// The explicit list of built-in layers. Static registrars would be dropped from archives by the
// linker.
#include "graph/registry.h"
#ifdef CREMA_HAVE_CUDA
#include "layers/gpu_implementations.h"
#endif

namespace crema {

#define LAYER(name) void Register##name(Registry&);
#include "layers/builtin_layers.def"

Registry BuiltinRegistry() {
  Registry registry;
#define LAYER(name) Register##name(registry);
#include "layers/builtin_layers.def"
#ifdef CREMA_HAVE_CUDA
  AddGpuImplementations(&registry);
#endif
  return registry;
}

}  // namespace crema
