#include "core/device.h"

namespace crema {

std::string ToString(const Device& device) {
  return device.type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(device.ordinal);
}

}  // namespace crema
