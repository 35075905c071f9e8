// What a run on a GPU keeps there besides its session: histories and averages of the weights. Those
// of the host are where files are read from and written to.
#pragma once

#include <cstdint>
#include <memory>
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
  // `average` may be null; `history` is that of the host, by learned slot. All must outlive this.
  DeviceState(Session* session, WeightAverage* average,
              const std::vector<std::vector<TensorView>>& history, const DeviceUpdateMaker& maker);

  // Weights, averages and history become those of the host.
  void TakeAll();
  void TakeAverage();
  // Back to the host, where they may have changed since. TakeAll and these wait for the queue.
  void ReturnWeights();  // and averages
  void ReturnHistory();

  TensorView weights(size_t slot) const { return session_->LearnedBlob(slot); }
  std::span<const TensorView> history(size_t slot) const { return history_[slot]; }

  // See DeviceUpdate::Apply; blob i of `args` is of learned slot slots[i].
  void Update(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
              std::vector<size_t> slots);
  // See DeviceUpdate.
  bool HasFiniteGradients(const UpdateArgs& args) { return update_->HasFiniteGradients(args); }
  void MoveAverage();
  // A pass has changed statistics.
  void NotePass() { weights_changed_ = true; }
  // The slot whose weights or history the last update made not finite; -1: none, or asked before.
  int64_t TakeBrokenSlot();

 private:
  bool Owns(size_t slot) const;

  Session* session_;
  WeightAverage* average_;
  const std::vector<std::vector<TensorView>>& host_history_;
  std::unique_ptr<DeviceUpdate> update_;
  std::vector<Tensor> memory_;
  std::vector<std::vector<TensorView>> history_;  // by learned slot, as that of the host
  std::vector<TensorView> averages_;              // by learned slot, of those that own
  std::vector<AveragedBlob> averaged_;
  std::vector<size_t> slots_;  // of an update that was not judged yet
  bool weights_changed_ = false;
  bool history_changed_ = false;
};

}  // namespace crema
