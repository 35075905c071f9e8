// What a source makes on the host, on its way to a GPU while that still computes with the batch
// before.
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

// The host fills one of kPlaces page-locked places while the ones before are on their way. They
// arrive in memory of their own, and the work of a pass copies them to where its layers read, so
// that the next transfer need not wait for that pass. The context must outlive it. Thread safety:
// one thread at a time.
class SourceTransfer {
 public:
  static constexpr size_t kPlaces = 2;

  explicit SourceTransfer(const ExecContext& context) : context_(context) {}

  // Makes room for outputs of these extents; memory is only taken anew where it is too small.
  void Reserve(std::span<const TensorView> outputs);
  // `outputs` become memory of the host, free to be written: a place that is still being read is
  // waited for.
  void Next(std::span<TensorView> outputs);
  // Queues the way of `outputs`, those of the last Next, to `place_of(output)`. Does not wait.
  void Send(std::span<const TensorView> outputs, const std::function<void*(size_t)>& place_of);

 private:
  struct Place {
    std::vector<Tensor> outputs;
    std::unique_ptr<DeviceEvent> sent;  // it may be written again
  };

  const ExecContext& context_;
  Place places_[kPlaces];
  size_t place_ = 0;  // that of the last Next
  std::vector<Tensor> arrived_;
  std::unique_ptr<DeviceEvent> taken_;  // arrived_ may be written again
};

}  // namespace crema
