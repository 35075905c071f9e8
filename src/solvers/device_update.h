// Updates of learned blobs that lie on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/exec_context.h"
#include "core/tensor.h"
#include "solvers/update_rule.h"

namespace crema {

// A blob and its moving average.
struct AveragedBlob {
  TensorView average;
  ConstTensorView weights;
  bool copied = false;  // a statistic, which is an average already
};

// Works in the queue of one context and never waits, but where said; what is in `args` and `blobs`
// is memory of that device. Thread safety: one thread at a time.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;

  // What UpdateRule::apply does with these arguments. Where `clip_norm` is 0 or more, gradients
  // whose norm over all blobs is larger are scaled down to it first.
  virtual void Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm) = 0;
  // Whether all gradients of these arguments are finite. Waits for the queue.
  virtual bool HasFiniteGradients(const UpdateArgs& args) = 0;
  // average += step * (weights - average).
  virtual void Average(std::span<const AveragedBlob> blobs, float step) = 0;
  // What UpdateRule::apply returns, of the last Apply: the first blob that then held a weight or
  // history that is not finite; -1: none, or there was no Apply. Waits for the queue.
  virtual int64_t FindBroken() = 0;
};

using DeviceUpdateMaker = std::function<std::unique_ptr<DeviceUpdate>(const ExecContext&)>;

// That of GPUs. Throws kDeviceFailure in a build without CUDA.
DeviceUpdateMaker BuiltInDeviceUpdate();

}  // namespace crema
