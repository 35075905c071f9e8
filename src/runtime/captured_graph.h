// A part of a pass that is captured as a device graph (CUDA graph) if possible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/device_queue.h"

namespace crema {

// The first run with a `version`, which `body` may still change, just calls `body`, since first-use
// initialisation (library handles, values derived from weights) happens then; the second captures
// the graph, and later ones launch it. So values that change between runs of one version must be
// read from device memory, and host work of `body` is not repeated. Thread safety: one thread at a
// time.
class CapturedGraph {
 public:
  void Run(DeviceQueue* queue, const uint64_t& version, const std::function<void()>& body);
  // Discards the graph; a later run captures it again.
  void Forget();
  // Disables capture from now on. The first reason stays.
  void Refuse(const std::string& reason);

  bool captured() const { return graph_ != nullptr; }
  const std::string& reason() const { return reason_; }  // of Refuse

 private:
  std::unique_ptr<DeviceGraph> graph_;
  uint64_t version_ = 0;
  bool ran_ = false;  // with this version
  std::string reason_;
};

}  // namespace crema
