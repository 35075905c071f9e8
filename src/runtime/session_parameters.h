// The parameters that a session works on, and their gradients.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/device_memory.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/weights.h"

namespace crema {

// On the CPU the session works on the weights themselves, on a GPU on a copy. Slots are indices
// into Plan::parameters; slots that share have one blob and one gradient. The plan and the context
// must outlive it. Thread safety: one thread at a time.
class SessionParameters {
 public:
  // Allocates the copy and the gradients. `updated` is null if running statistics must not change,
  // else `weights`.
  SessionParameters(const Plan& plan, const ExecContext& context,
                    std::shared_ptr<const Weights> weights, std::shared_ptr<Weights> updated);

  const Weights& weights() const { return *weights_; }
  TensorView Blob(size_t slot) const;
  bool UpdatesStatistics() const { return updated_ != nullptr; }

  // Copy the weights to the GPU, and from it: running statistics alone, or all. They do nothing on
  // the CPU. Download requires that statistics may change.
  void Upload();
  void DownloadStatistics();
  void Download();

  // Returns the gradient of a slot, empty if none was planned.
  TensorView Gradient(size_t slot) const { return gradients_[slot]; }
  // Returns all gradients in the order of their slots, with padding. Requires a plan of f32.
  std::span<float> GradientMemory();
  void ZeroGradients();

 private:
  void AllocateGradients();
  bool OnGpu() const { return context_.queue() != nullptr; }
  bool Owns(size_t slot) const { return plan_.parameters[slot].owner == static_cast<int>(slot); }

  const Plan& plan_;
  const ExecContext& context_;
  std::shared_ptr<const Weights> weights_;
  std::shared_ptr<Weights> updated_;
  std::vector<Tensor> copies_;  // by slot, of those that own; on a GPU
  ByteMemory gradient_memory_;
  std::vector<TensorView> gradients_;  // by slot
};

}  // namespace crema
