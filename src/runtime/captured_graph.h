// A part of a pass that is queued as one where it can be: a graph of the device (CUDA graph).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/device_queue.h"

namespace crema {

// The first run with the same `version`, which `body` may still change, is as `body` is, since what
// is made when it is first needed (handles of libraries, values made of weights) is made then; the
// second keeps the work, and later ones launch it. So what changes between runs of one version must
// be read from memory of the device, and what `body` does on the host must not matter. Thread
// safety: one thread at a time.
class CapturedGraph {
 public:
  void Run(DeviceQueue* queue, const uint64_t& version, const std::function<void()>& body);
  // Queued anew from now on until it is kept again.
  void Forget();
  // Never kept from now on. The first reason stays.
  void Refuse(const std::string& reason);

  bool captured() const { return graph_ != nullptr; }
  const std::string& reason() const { return reason_; }  // why it is never kept; empty: it may be

 private:
  std::unique_ptr<DeviceGraph> graph_;
  uint64_t version_ = 0;
  bool ran_ = false;  // with this version
  std::string reason_;
};

}  // namespace crema
