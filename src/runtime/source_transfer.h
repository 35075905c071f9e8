// Transfers batches from a source on the host to a GPU while the GPU computes the previous batch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/device_queue.h"
#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

// The host fills one of kPlaces page-locked places while earlier ones are being transferred. They
// arrive in separate device memory, and each pass copies them to the inputs of its layers, so that
// the next transfer need not wait for that pass. The context must outlive it. Thread safety: one
// thread at a time.
class SourceTransfer {
 public:
  static constexpr size_t kPlaces = 2;

  explicit SourceTransfer(const ExecContext& context) : context_(context) {}

  // Makes room for outputs of these shapes; reallocates only if the memory is too small.
  void Reserve(std::span<const TensorView> outputs);
  // Sets `outputs` to host memory that may be written; waits if the place is still being read.
  void Next(std::span<TensorView> outputs);
  // Queues the copies of `outputs`, those of the last Next, to `place_of(output)`. Does not wait.
  void Send(std::span<const TensorView> outputs, const std::function<void*(size_t)>& place_of);

 private:
  struct Place {
    std::vector<Tensor> outputs;
    std::unique_ptr<DeviceEvent> sent;  // then it may be written again
  };

  const ExecContext& context_;
  Place places_[kPlaces];
  size_t place_ = 0;  // that of the last Next
  std::vector<Tensor> arrived_;
  std::unique_ptr<DeviceEvent> taken_;  // then arrived_ may be written again
};

}  // namespace crema
