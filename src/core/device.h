// Devices: where memory is allocated and work is executed.
#pragma once

#include <string>

namespace crema {

enum class DeviceType { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int ordinal = 0;  // number of the GPU; 0 on the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

inline std::string ToString(const Device& device) {  // "cpu", "cuda:0"
  return device.type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(device.ordinal);
}

}  // namespace crema
