#include "layers/cudnn_implementations.h"

namespace crema {

#define LAYER(name) void Register##name##Cudnn(Registry&);
#include "layers/cudnn_implementations.def"
#undef LAYER

void AddCudnnImplementations([[maybe_unused]] Registry* registry) {
#define LAYER(name) Register##name##Cudnn(*registry);
#include "layers/cudnn_implementations.def"
#undef LAYER
}

}  // namespace crema
