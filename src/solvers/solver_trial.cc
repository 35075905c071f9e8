// Training that leaves no trace, for the search for a learning rate.
#include <cstring>
#include <optional>
#include <utility>

#include "crema.pb.h"
#include "solvers/solver.h"

namespace crema {
namespace {

std::vector<Tensor> CopiesOf(const std::vector<TensorView>& views) {
  std::vector<Tensor> copies;
  for (const TensorView& view : views) {
    Tensor& copy = copies.emplace_back(view.shape(), view.dtype());
    std::memcpy(copy.view().raw(), view.raw(), view.bytes());
  }
  return copies;
}

}  // namespace

double Solver::Iterate(double rate) {
  if (device_) {
    QueueIteration(rate);
    DrainCompletedIterations(true);
    return heard_loss_;
  }
  const std::optional<double> loss = ForwardBackward(false);
  ApplyUpdate(rate);
  ++iteration_;
  return *loss;
}

void Solver::QueueIteration(double rate) {
  if (!device_) return void(Iterate(rate));
  IterateOnGpu(rate);
}

void Solver::EndTrial() { DrainCompletedIterations(true); }

void Solver::WithoutTrace(const std::function<void()>& body) {
  DrainCompletedIterations(true);
  ReturnWeights();
  ReturnHistory();
  std::vector<TensorView> changed;
  for (size_t s = 0; s < weights_->size(); ++s) changed.push_back(weights_->blob(s));
  for (Tensor& history : history_memory_) changed.push_back(history.view());
  std::vector<Tensor> values = CopiesOf(changed);
  SolverState state;
  train_->SaveState("train", &state);
  const uint64_t step = train_->step();
  const int64_t iteration = iteration_;
  const std::optional<LossScale> scale = scale_;

  const auto put_back = [&] {
    for (size_t i = 0; i < changed.size(); ++i) {
      std::memcpy(changed[i].raw(), values[i].view().raw(), changed[i].bytes());
    }
    if (device_) device_->TakeAll();
    train_->RestoreState("train", state);
    train_->set_step(step);
    iteration_ = iteration;
    scale_ = scale;
    BeginOnGpu();
  };
  try {
    body();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace crema
