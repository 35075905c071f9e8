#include "layers/cudnn_rows.h"

namespace crema {

#define LAYER(name) void Register##name##Cudnn(Registry&);
#include "layers/cudnn_rows.def"
#undef LAYER

void AddCudnnRows([[maybe_unused]] Registry* registry) {
#define LAYER(name) Register##name##Cudnn(*registry);
#include "layers/cudnn_rows.def"
#undef LAYER
}

}  // namespace crema
