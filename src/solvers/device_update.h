// Updates of learned blobs that lie on a device.
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
  bool copied = false;  // a statistic, which is an average already
};

// Works in the queue of one context and never waits, but where said; what is in `args` and `blobs`
// is memory of that device. Thread safety: one thread at a time.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;

  // Begins or goes on with a run: what it says of scale and end holds from now on, and iterations
  // that were not taken are forgotten. Waits.
  virtual void Begin(const DeviceRun& run) = 0;
  // Where the loss scale is; for Session::set_loss_scale_place.
  virtual const double* ScalePlace() = 0;
  // The loss of pass `pass` of the iteration is at `loss`. One that is not finite ends the run.
  virtual void NoteLoss(const double* loss, int64_t pass) = 0;

  // What UpdateRule::apply does with these arguments, if the run has not ended. Where `clip_norm`
  // is 0 or more, gradients whose norm over all blobs is larger are scaled down to it first. Both
  // `clip_norm` and args.gradient_scale are those of gradients without a loss scale. A weight or
  // history that is not finite then ends the run. Where `growth_interval` is above 0, the loss
  // scale is judged first, and gradients that are not finite change nothing but that.
  virtual void Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
                     int64_t growth_interval) = 0;
  // average += step * (weights - average), where the last Apply changed weights.
  virtual void Average(std::span<const AveragedBlob> blobs, float step) = 0;
  // Ends an iteration, of which TakeOutcome tells when the GPU has come there.
  virtual void EndIteration() = 0;
  // Of iterations that were ended and not taken, the first, if the GPU has ended it, too; with
  // `wait` it waits for that. At most kMostAhead may be there when another is begun.
  virtual std::optional<DeviceRun> TakeOutcome(bool wait) = 0;
  static constexpr size_t kMostAhead = 8;
  // Of a run that ended by kUpdate: the gradients of that update, by blob. Waits.
  virtual std::vector<GradientReport> BrokenGradients() = 0;
};

using DeviceUpdateMaker = std::function<std::unique_ptr<DeviceUpdate>(const ExecContext&)>;

// That of GPUs. Throws kDeviceFailure in a build without CUDA.
DeviceUpdateMaker BuiltInDeviceUpdate();

// By kernels, for blobs of f32; built with CUDA only, and into tests. The context, of a GPU, must
// outlive it.
std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context);

}  // namespace crema
