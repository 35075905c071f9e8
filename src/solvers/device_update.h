// Updates of parameters in device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/exec_context.h"
#include "core/tensor.h"
#include "solvers/device_run.h"
#include "solvers/update_rule.h"

namespace crema {

// A blob and its moving average.
struct AveragedBlob {
  TensorView average;
  ConstTensorView weights;
  bool copied = false;  // a running statistic, already an average
};

// Works in the queue of one context and does not wait unless stated; `args` and `blobs` are in the
// memory of that device. Thread safety: one thread at a time.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;

  // Begins or continues a run with this loss scale and end, and discards outcomes that were not
  // taken. Waits.
  virtual void Begin(const DeviceRun& run) = 0;
  // Returns the address of the loss scale; for Session::set_loss_scale_place.
  virtual const double* ScalePlace() = 0;
  // Reads the loss of pass `pass` of the iteration at `loss`. One that is not finite ends the run.
  virtual void NoteLoss(const double* loss, int64_t pass) = 0;

  // Does UpdateRule::apply with these arguments, unless the run has ended. If `clip_norm` is 0 or
  // more, gradients whose norm over all blobs is larger are scaled down to it first. Both
  // `clip_norm` and args.gradient_scale are for gradients without a loss scale. A weight or history
  // that is not finite then ends the run. If `growth_interval` is above 0, the loss scale is judged
  // first, and gradients that are not finite change only the scale.
  virtual void Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
                     int64_t growth_interval) = 0;
  // average += step * (weights - average), if the last Apply changed weights.
  virtual void Average(std::span<const AveragedBlob> blobs, float step) = 0;
  // Ends an iteration; TakeOutcome returns its outcome when the GPU has completed it.
  virtual void EndIteration() = 0;
  // Returns the oldest outcome that was not taken, if the GPU has completed that iteration; with
  // `wait` it waits for it. At most kMostAhead outcomes may be pending when another iteration
  // begins.
  virtual std::optional<DeviceRun> TakeOutcome(bool wait) = 0;
  static constexpr size_t kMostAhead = 8;
  // For a run that ended by kUpdate: returns the gradients of that update, by blob. Waits.
  virtual std::vector<GradientReport> BrokenGradients() = 0;
};

using DeviceUpdateMaker = std::function<std::unique_ptr<DeviceUpdate>(const ExecContext&)>;

// Returns the maker for GPUs. Throws kDeviceFailure in a build without CUDA.
DeviceUpdateMaker BuiltInDeviceUpdate();

// Returns an update by kernels, for f32 blobs; built with CUDA, and into tests. The context, of a
// GPU, must outlive it.
std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context);

}  // namespace crema
