#include "solvers/device_update.h"

#include "core/error.h"
#ifdef CREMA_HAVE_CUDA
#include "solvers/gpu_update.h"
#endif

namespace crema {

DeviceUpdateMaker BuiltInDeviceUpdate() {
#ifdef CREMA_HAVE_CUDA
  return MakeGpuUpdate;
#else
  Fail(ErrorCode::kDeviceFailure, "this program was built without CUDA");
#endif
}

}  // namespace crema
