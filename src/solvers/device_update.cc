#include "solvers/device_update.h"

#include "core/error.h"
#ifdef CREMA_HAVE_CUDA
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
