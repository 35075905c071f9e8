// The passes of a session on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/exec_context.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/captured_graph.h"
#include "runtime/session_values.h"

namespace crema {

// Queues passes without waiting. The part after the last host source runs as a captured graph, from
// the third pass of the same shapes on. The number of the pass, which random layers read, and the
// loss lie in device memory. All arguments must outlive it. Thread safety: one thread at a time.
class DevicePasses {
 public:
  DevicePasses(const Plan& plan, const ExecContext& context, const SessionValues& values);
  // Waits for the queue, so that the memory which queued work uses can be freed.
  ~DevicePasses();

  // Runs `run_layer` for all layers and adds up their loss. With `captures` false, no graph is
  // captured or launched. Errors of queued work may come later.
  void Forward(bool captures, const std::function<void(size_t)>& run_layer);
  // Runs `body`, the backward pass, in the same way.
  void Backward(bool captures, const std::function<void()>& body);

  // Returns the loss of the last pass. Waits for it.
  double Loss() const;
  // Returns the place of the loss in device memory, which holds until the next pass.
  double* loss_place() const { return &pass()->loss; }

  // Sets the address of the loss scale in device memory. Null: the session has the scale.
  void set_scale_place(const double* place);
  const double* scale_place() const { return scale_place_; }

  // Captures graphs anew: something that they have read has changed.
  void Forget();
  void ForgetBackward() { backward_.Forget(); }
  // Captures no graphs from now on. The first reason stays.
  void Refuse(const std::string& reason);
  // Returns the reason why no graphs are captured; empty: they are.
  const std::string& WhyNoGraph() const;
  // Returns the first layer that is captured.
  size_t first_captured() const { return first_captured_; }

 private:
  struct Pass {
    uint64_t step;
    double loss;
  };
  Pass* pass() const { return static_cast<Pass*>(const_cast<Tensor&>(memory_).view().raw()); }
  void SetStep();
  void RunLayers(bool captures, const std::function<void(size_t)>& run_layer);
  bool HasLoss(const PlannedLayer& layer) const;
  void AddLoss(const PlannedLayer& layer);

  const Plan& plan_;
  const ExecContext& context_;
  const SessionValues& values_;
  DeviceQueue& queue_;
  Tensor memory_;           // of a Pass
  uint64_t next_step_ = 0;  // that the device will count to, if counts_
  bool counts_ = false;
  size_t first_captured_;
  CapturedGraph forward_, backward_;
  const double* scale_place_ = nullptr;
};

}  // namespace crema
