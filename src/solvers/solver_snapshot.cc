// The state of a run: written to and read from snapshots.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/solver_state.h"
#include "solvers/snapshot.h"
#include "solvers/solver.h"
#include "solvers/state_check.h"

namespace crema {

// What tests change; all of it is as it was before the tests of this iteration.
void Solver::SaveDecisions(SolverState* state) const {
  rate_->Save(state);
  if (best_) best_->Save(state);
  if (early_) early_->Save(state);
  for (const auto& test : tests_) test->Save(state);
}

SolverState Solver::MakeState() const {
  SolverState state;
  state.set_iter(static_cast<int>(iteration_));
  state.set_solver_type(rule_.name);
  state.set_seed(seed_);
  state.set_step(train_->step());
  losses_.Save(&state);
  if (scale_) scale_->Save(&state);
  for (int h = 0; h < rule_.histories; ++h) {
    for (const std::vector<TensorView>& of_slot : history_) {
      if (!of_slot.empty()) CopyFrom(of_slot[static_cast<size_t>(h)], state.add_history());
    }
  }
  ranks_.SavePositions(*train_, &state);
  if (before_tests_) {
    state.MergeFrom(*before_tests_);
  } else {
    SaveDecisions(&state);
  }
  return state;
}

RunWeights Solver::RunWeightsNow() const {
  return {*train_plan_, *weights_, average_ ? &average_->weights() : nullptr};
}

void Solver::Snapshot() {
  if (!snapshots_.has_prefix()) {
    Fail(ErrorCode::kInvalidArgument, "a snapshot needs the field snapshot_prefix in the solver");
  }
  StartAverage();
  DrainCompletedIterations(true);
  ReturnWeights();
  ReturnHistory();
  ranks_.ThrowIfFailed();
  snapshots_.Write(RunWeightsNow(), iteration_, MakeState());
}

void Solver::TrySnapshot() {
  snapshots_.TryWrite(iteration_, [this] { Snapshot(); });
}

void Solver::Restore(const std::string& path) {
  const SolverState state = ReadSolverState(path);
  CheckState(state, path, param_, seed_, options_.log);
  RestoreHistory(state, path);
  LoadModelOfState(state, path, *train_plan_, weights_.get());
  RestoreAverage(state, path);
  iteration_ = state.iter();
  snapshots_.set_last(iteration_);
  rate_->Restore(state);
  losses_.Restore(state);
  if (scale_) scale_->Restore(state, path);
  if (best_) best_->Restore(state);
  if (early_) early_->Restore(state);
  RestorePositions(state);
  if (device_) device_->TakeAll();
  BeginOnGpu();
  restored_ = true;
  if (iteration_ >= param_.max_iter()) {
    options_.log->Write(Severity::kWarning,
                        StrCat("the state is of iteration ", iteration_, ", and max_iter is ",
                               param_.max_iter(), ": there is nothing left to train"));
  }
}

void Solver::RestoreAverage(const SolverState& state, const std::string& path) {
  average_started_ = false;
  before_tests_.reset();
  if (!average_) return;
  if (state.ema_net().empty()) {
    options_.log->Write(Severity::kWarning,
                        StrCat("ema_decay is set, but ", path,
                               " has no averaged weights; the average starts from its weights"));
    return;
  }
  LoadAverageOfState(state, path, *train_plan_, &average_->weights());
  average_started_ = true;
}

void Solver::RestorePositions(const SolverState& state) {
  const uint64_t passes =
      static_cast<uint64_t>(state.iter()) * static_cast<uint64_t>(param_.iter_size());
  train_->set_step(ranks_.StepOf(state.has_step() ? state.step() : passes));
  ranks_.RestorePositions(state, train_.get(), options_.log);
  for (const auto& test : tests_) test->Restore(state);
}

namespace {

// Caffe's states carry no solver type; the number of blobs tells something.
std::string DescribeHistoryCount(const SolverState& state, const UpdateRule& rule,
                                 size_t expected) {
  const std::string start = StrCat("the state holds ", state.history_size(), " history blobs, but ",
                                   rule.name, " keeps ", expected, " for this net");
  const size_t learned = expected / static_cast<size_t>(rule.histories);
  std::vector<std::string> types;
  for (const UpdateRule& other : UpdateRules()) {
    const size_t kept = learned * static_cast<size_t>(other.histories);
    if (other.in_caffe && kept == static_cast<size_t>(state.history_size())) {
      types.push_back(other.name);
    }
  }
  if (types.empty()) return start + "; it is of another net";
  return StrCat(start, "; that many are of these solver types: ", Join(types, ", "),
                ". Resume with the type of the run, or start from the model with --weights");
}

bool HasNegative(const BlobProto& blob) {
  Tensor values(ShapeOf(blob), DType::kF32);
  CopyTo(blob, values.view());
  return std::ranges::any_of(values.view().span<float>(), [](float x) { return x < 0; });
}

}  // namespace

void Solver::RestoreHistory(const SolverState& state, const std::string& path) {
  std::vector<TensorView> targets;
  std::vector<std::string> layers;
  for (int h = 0; h < rule_.histories; ++h) {
    for (size_t s = 0; s < history_.size(); ++s) {
      if (history_[s].empty()) continue;
      targets.push_back(history_[s][static_cast<size_t>(h)]);
      layers.push_back(
          train_plan_->layers[static_cast<size_t>(train_plan_->learned[s].layer)].name());
    }
  }
  if (static_cast<size_t>(state.history_size()) != targets.size()) {
    Fail(ErrorCode::kInvalidArgument, DescribeHistoryCount(state, rule_, targets.size()),
         {.file = path});
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const BlobProto& blob = state.history(static_cast<int>(i));
    if (!ShapeMatches(blob, targets[i].shape())) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("history blob ", i, " is ", ToString(ShapeOf(blob)), " in the state, but ",
                  ToString(targets[i].shape()), " in the net; the state is of another net"),
           {.file = path, .layer = layers[i]});
    }
    const size_t h = i * static_cast<size_t>(rule_.histories) / targets.size();
    if ((rule_.squares >> h & 1U) != 0 && HasNegative(blob)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("history blob ", i, " holds negative numbers, but ", rule_.name,
                  " keeps sums of squares there; the state is of another solver type"),
           {.file = path, .layer = layers[i]});
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    CopyTo(state.history(static_cast<int>(i)), targets[i]);
    // Momentum of a run in which it was learned would move it on.
    if (std::ranges::find(frozen_, layers[i]) != frozen_.end()) {
      std::ranges::fill(targets[i].span<float>(), 0.0F);
    }
  }
}

}  // namespace crema
