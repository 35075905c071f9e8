// Collective operations of the devices of one run.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

// Each device of a run is a rank, from 0, with its own thread and context. All ranks call Sum and
// CopyFromFirst equally often, in the same order, with equal sizes. The operations are ordered with
// the other work of the context. Both throw kDeviceFailure, and kCancelled after Abort. Thread
// safety: one thread per rank; Abort any.
class Collective {
 public:
  virtual ~Collective() = default;

  // Replaces the values, in memory of the context, by their sums over all ranks: the same bits on
  // all ranks.
  virtual void Sum(int rank, const ExecContext& context, std::span<float> values) = 0;
  // Copies dense blobs, in memory of the context, from rank 0 to all others.
  virtual void CopyFromFirst(int rank, const ExecContext& context,
                             std::span<const TensorView> blobs) = 0;
  // Sums as Sum does, in a thread of its own: the values must stay as they are from StartSum to
  // FinishSums. All ranks start equal sums in the same order. Require bucket_values() > 0.
  virtual void StartSum(int /*rank*/, std::span<float> /*values*/) {}
  virtual void FinishSums(int /*rank*/) {}
  // Returns the number of values that StartSum is best called with; 0: it is not supported.
  virtual size_t bucket_values() const { return 0; }
  // Returns the seconds that started sums have taken so far.
  virtual double SumSeconds() const { return 0; }
  // Returns true if all started sums have ended.
  virtual bool IsIdle() const { return true; }
  // Returns true if a started sum has failed.
  virtual bool HasFailed() const { return false; }
  // Returns what sums in the middle of a pass; null: these ranks cannot.
  virtual RankSums* SumsInPass() { return nullptr; }
  // Returns the seconds that these sums have taken so far. Thread safety: that of the rank.
  virtual double SecondsInPass() const { return 0; }
  // Announces that a rank has failed. Releases waiting ranks; results in progress are undefined.
  virtual void Abort() noexcept = 0;
};

// Rank r uses GPU gpus[r]; its contexts must be of that GPU. Throws kDeviceFailure if a GPU is
// listed twice or cannot be connected with the others, NCCL cannot be loaded, or this build has no
// CUDA.
std::unique_ptr<Collective> MakeGpuCollective(const std::vector<int>& gpus);

}  // namespace crema
