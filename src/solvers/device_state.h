// The state of a run on a GPU besides its session: histories and averages of the weights. Files are
// read to and written from the copies in host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "runtime/session.h"
#include "solvers/device_update.h"
#include "solvers/ema.h"

namespace crema {

// Thread safety: one thread.
class DeviceState {
 public:
  // `average` may be null; `history` is in host memory, by parameter slot. All must outlive this.
  DeviceState(Session* session, WeightAverage* average,
              const std::vector<std::vector<TensorView>>& history, const DeviceUpdateMaker& maker);

  // Copies weights, averages and history from the host.
  void TakeAll();
  void TakeAverage();
  // Copy to the host if they may have changed. TakeAll and these wait for the queue.
  void ReturnWeights();  // and averages
  void ReturnHistory();

  TensorView weights(size_t slot) const { return session_->Parameter(slot); }
  std::span<const TensorView> history(size_t slot) const { return history_[slot]; }

  // See DeviceUpdate::Apply; blob i of `args` belongs to parameter slot slots[i], the same in each
  // update.
  void Update(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
              int64_t growth_interval, const std::vector<size_t>& slots);
  // See DeviceUpdate. `scale`, unless null, is a loss scale, which the session then reads there.
  void Begin(const ScaleState* scale);
  void EndIteration() { update_->EndIteration(); }
  std::optional<DeviceRun> TakeOutcome(bool wait) { return update_->TakeOutcome(wait); }
  void MoveAverage();
  // Records that a pass outside of an iteration changed statistics.
  void NoteStatistics() { weights_changed_ = true; }
  // Records that pass `pass` of an iteration has been queued: it changes statistics, and has a
  // loss.
  void NotePass(int64_t pass);
  // Records that something other than Update changed weights.
  void NoteChange() { weights_changed_ = true; }
  // For the update that ended a run: the slot of its blob `blob`, and its gradients by slot.
  size_t SlotOf(int64_t blob) const { return slots_.at(static_cast<size_t>(blob)); }
  std::vector<GradientReport> BrokenGradients();

 private:
  bool Owns(size_t slot) const;

  Session* session_;
  WeightAverage* average_;
  const std::vector<std::vector<TensorView>>& host_history_;
  std::unique_ptr<DeviceUpdate> update_;
  std::vector<Tensor> memory_;
  std::vector<std::vector<TensorView>> history_;  // by parameter slot, as in host memory
  std::vector<TensorView> averages_;              // by parameter slot, if it owns its parameter
  std::vector<AveragedBlob> averaged_;
  std::vector<size_t> slots_;  // of the blobs of updates
  bool weights_changed_ = false;
  bool history_changed_ = false;
};

}  // namespace crema
