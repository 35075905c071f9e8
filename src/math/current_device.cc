#include "math/current_device.h"

#ifdef CREMA_HAVE_CUDA
#include "math/cuda/cuda_device.h"
#endif

namespace crema {

void SetCurrentDevice([[maybe_unused]] const Device& device) {
#ifdef CREMA_HAVE_CUDA
  if (device.type == DeviceType::kCuda) SelectCudaDevice(device.ordinal);
#endif
}

}  // namespace crema
