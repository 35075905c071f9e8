// Where memory lies and work is done.
#pragma once

#include <string>

namespace crema {

enum class DeviceType { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int ordinal = 0;  // which GPU; 0 on the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

std::string ToString(const Device& device);  // "cpu", "cuda:0"

}  // namespace crema
