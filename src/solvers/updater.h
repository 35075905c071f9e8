// Updates the parameters of a run, and owns the state that updates change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "runtime/session.h"
#include "solvers/device_state.h"
#include "solvers/ema.h"
#include "solvers/loss_scale.h"
#include "solvers/update_rule.h"

namespace crema {

// The weights, the histories of the update rule, the average of the weights (ema_decay) and the
// loss scale. On a GPU they are in its memory; some calls, as documented, copy them to host memory.
// Thread safety: one thread.
class Updater {
 public:
  enum class Outcome { kUpdated, kSkipped, kBroken };

  struct Options {
    uint64_t seed = 1;              // of the fillers of the average, until it starts
    int ranks = 1;                  // gradients are sums over this number of ranks
    DeviceUpdateMaker device = {};  // empty: as built
    LogSink* log = nullptr;         // must not be null
  };
  // `plan` and `weights` are those of `train`; `param`, `train` and `weights` must outlive this.
  // Throws kUnsupported if the loss cannot be scaled.
  Updater(const SolverParameter& param, const std::shared_ptr<const Plan>& plan, Session* train,
          Weights* weights, Options options);

  const UpdateRule& rule() const { return rule_; }
  // Returns null on the CPU.
  DeviceState* device() const { return device_.get(); }

  // Sets the loss scale of the next Backward of the session, on the CPU.
  void ScaleLoss();
  // Updates the weights by the gradients of the session, which are sums over iter_size passes.
  // kSkipped: gradients were not finite at this loss scale, which is lower now. kBroken: a weight
  // or history is not finite, that of broken_slot(). Throws kDiverged if the scale is spent.
  Outcome Update(double rate, int64_t iteration);
  size_t broken_slot() const { return broken_slot_; }
  // Queues the update on the GPU.
  void QueueUpdate(double rate, int64_t iteration);
  // Takes the outcome of the oldest queued iteration; nothing if the GPU has not completed it and
  // `wait` is false.
  std::optional<DeviceRun> TakeOutcome(bool wait);
  // Follows the loss scale of that outcome. Throws kDiverged if the scale is spent.
  void FollowScale(const DeviceRun& outcome, int64_t iteration);
  // Restarts the queue of outcomes.
  void BeginDevice();

  // Moves the average after an update. StartAverage sets it to the weights unless it has started:
  // it starts from the initial weights of training, however they were loaded.
  void MoveAverage();
  // Gives the average the running statistics of the weights, which have changed since.
  void CopyStatistics();
  void StartAverage();

  // Returns null if the loss is not scaled.
  const LossScale* scale() const { return scale_ ? &*scale_ : nullptr; }
  // Returns the factor of gradients in the last update, without clipping.
  double gradient_scale() const { return gradient_scale_; }

  // Returns the weights, copied from the GPU with their average if they have changed there.
  Weights& HostWeights();
  // Returns the average as HostWeights left it. Null without ema_decay.
  Weights* average() { return average_ ? &average_->weights() : nullptr; }
  // Takes weights that were written to HostWeights. The average starts again from them.
  void TakeWeights();
  // Returns the weights and histories that the session works with, each once.
  std::vector<TensorView> Blobs() const;
  bool restored() const { return restored_; }

  // Copies the histories from the GPU and appends them and the loss scale to `state`.
  void Save(SolverState* state);
  // Restores histories, weights, average and loss scale from a state (read from `path`) and its
  // models. Histories of `frozen` layers become zero. Throws kInvalidArgument for a state of
  // another net or rule, and kDataLoss.
  void Restore(const SolverState& state, const std::string& path,
               const std::vector<std::string>& frozen);

  // A copy of everything that updates change, except the average.
  struct Copy {
    std::vector<Tensor> blobs;
    std::optional<LossScale> scale;
  };
  Copy TakeCopy();
  void PutBack(const Copy& copy);

 private:
  const ParameterSlot& Slot(size_t slot) const { return train_.plan().parameters[slot]; }
  double ScaleNow() const { return scale_ ? scale_->scale() : 1; }
  void AllocateHistory();
  std::vector<ConstTensorView> Gradients();
  double NormOfGradients();
  double GradientScale(double loss_scale);
  bool JudgeScale(int64_t iteration);
  void ReportSkipped(int64_t iteration, double tried);
  bool StandsStill(size_t slot);
  void FindBlobsToUpdate(double rate);
  UpdateArgs Args(double rate, int64_t iteration);
  void ReturnHistory();
  void TakeAll();
  std::vector<TensorView> HostBlobs();
  std::vector<TensorView> HistoryInOrder(std::vector<std::string>* layers) const;
  void RestoreHistory(const SolverState& state, const std::string& path,
                      const std::vector<std::string>& frozen);
  void RestoreAverage(const SolverState& state, const std::string& path);

  const SolverParameter& param_;
  const UpdateRule& rule_;
  Session& train_;
  Weights& weights_;
  const Options options_;
  std::optional<WeightAverage> average_;
  bool average_started_ = false;
  std::vector<Tensor> history_memory_;
  std::vector<std::vector<TensorView>> history_;  // by parameter slot; empty if it is shared
  std::unique_ptr<DeviceState> device_;
  std::optional<LossScale> scale_;
  double gradient_scale_ = 1;
  bool restored_ = false;
  size_t broken_slot_ = 0;
  std::vector<BlobUpdate> blobs_;  // of the update in progress
  std::vector<size_t> slots_;      // theirs
};

}  // namespace crema
