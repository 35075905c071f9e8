#include "layers/gpu_implementations.h"

namespace crema {

#define CUDNN(name) void Register##name##Cudnn(Registry&);
#include "layers/builtin_layers.def"

void AddCudnnImplementations([[maybe_unused]] Registry* registry) {
#define CUDNN(name) Register##name##Cudnn(*registry);
#include "layers/builtin_layers.def"
}

}  // namespace crema
