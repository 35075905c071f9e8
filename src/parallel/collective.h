// What the devices of one run do to their memory together.
#pragma once

#include <span>

#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

// Each device of a run is a rank, from 0, with a thread and a context of its own. All ranks call
// Sum and CopyFromFirst as often, in the same order, with as many elements; what they do comes in
// the order of the context's work. Both throw kDeviceFailure, and kCancelled once Abort was called.
// Thread safety: one thread a rank; Abort any.
class Collective {
 public:
  virtual ~Collective() = default;

  // Each of these elements, in memory of the context, becomes its sum over all ranks: the same bits
  // in all of them.
  virtual void Sum(int rank, const ExecContext& context, std::span<float> values) = 0;
  // Dense blobs in memory of the context become those of rank 0.
  virtual void CopyFromFirst(int rank, const ExecContext& context,
                             std::span<const TensorView> blobs) = 0;
  // A rank will not come any more: whoever waits for it is released, and what was being computed is
  // undefined.
  virtual void Abort() noexcept = 0;
};

}  // namespace crema
