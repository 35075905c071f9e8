// The state of a run that a GPU updates itself, so that the host need not wait after each
// iteration.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace crema {

// A loss scale (loss_scale.h), on either device.
struct ScaleState {
  static constexpr double kLargest = 1 << 24;
  static constexpr double kSmallest = 1.0 / 1024;

  double scale = 1;
  int64_t good = 0;     // updates since it changed
  int64_t skipped = 0;  // updates, in the whole run

  // As LossScale::Judge.
  CREMA_HOST_DEVICE bool Judge(bool finite, int64_t growth_interval) {
    if (!finite) {
      scale /= 2;
      good = 0;
      ++skipped;
      return false;
    }
    if (++good >= growth_interval) {
      if (scale * 2 <= kLargest) scale *= 2;
      good = 0;
    }
    return true;
  }
  CREMA_HOST_DEVICE bool IsSpent() const { return scale < kSmallest; }
};

// The reason why updates have stopped, until the host has reported it.
enum class RunEnd : int64_t { kNone, kLoss, kUpdate, kScale };

// The state at the end of an iteration.
struct DeviceRun {
  double loss = 0;    // of its passes, summed
  double tried = 1;   // the loss scale of its gradients
  ScaleState scale;   // for the next one
  int64_t skips = 0;  // 1: its update was skipped
  RunEnd end = RunEnd::kNone;
  int64_t pass = 0;     // kLoss: of the iteration, the first whose loss was not finite
  double bad_loss = 0;  // of that pass
  int64_t blob = -1;    // kUpdate: the first blob with a number that is not finite

  CREMA_HOST_DEVICE bool Updates() const { return skips == 0 && end == RunEnd::kNone; }
};

// A gradient in the update that ended a run.
struct GradientReport {
  int64_t broken;    // values that are not finite
  int64_t first_at;  // the first of them; -1: none
  double first;
  double largest;  // magnitude of the finite ones
};

}  // namespace crema
