// What a solver does besides where the run is on several devices. All ranks go through the same
// calls of RankGroup and Collective: what only rank 0 knows (tests, signals, time) it tells the
// others before they act on it.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/solver.h"

namespace crema {
namespace {

constexpr std::string_view kTrain = "train";

// How solver states name the layers of the training net of a rank: "train", "train@1", ...
std::string NetOfRank(int rank) {
  return rank == 0 ? std::string(kTrain) : StrCat(kTrain, "@", rank);
}

// 0 also where it is not that of a rank.
int RankOfNet(std::string_view net) {
  if (!net.starts_with(StrCat(kTrain, "@"))) return 0;
  int rank = 0;
  std::from_chars(net.data() + kTrain.size() + 1, net.data() + net.size(), rank);
  return rank;
}

int RanksOf(const SolverState& state) {
  int ranks = 1;
  for (const LayerState& layer : state.layer_state()) {
    ranks = std::max(ranks, RankOfNet(layer.net()) + 1);
  }
  return ranks;
}

// Where each of `now` ranks goes on when each of `before` stood where rank 0 did.
SolverState Dealt(const SolverState& state, int before, int now) {
  SolverState dealt;
  for (const LayerState& layer : state.layer_state()) {
    if (layer.net() != kTrain) continue;
    LayerState* moved = dealt.add_layer_state();
    *moved = layer;
    const uint64_t samples = layer.position() * static_cast<uint64_t>(before);
    if (layer.has_position()) moved->set_position(samples / static_cast<uint64_t>(now));
  }
  return dealt;
}

}  // namespace

uint64_t Solver::StepOfRank(uint64_t step) const {
  constexpr int kBitsOfStep = 48;
  return step + (static_cast<uint64_t>(options_.rank) << kBitsOfStep);
}

// Weights and histories of rank 0 become those of all.
void Solver::StartRanks() {
  if (options_.ranks == nullptr) return;
  std::vector<TensorView> blobs;
  for (size_t s = 0; s < history_.size(); ++s) {
    if (train_plan_->learned[s].owner != static_cast<int>(s)) continue;
    blobs.push_back(train_->LearnedBlob(s));
    const std::span<const TensorView> histories = device_ ? device_->history(s) : history_[s];
    blobs.insert(blobs.end(), histories.begin(), histories.end());
  }
  const double first = static_cast<double>(iteration_);
  for (const RankGroup::Note& note : options_.ranks->Exchange(options_.rank, {.number = first})) {
    CREMA_CHECK(note.number == first);
  }
  options_.ranks->collective().CopyFromFirst(options_.rank, train_->context(), blobs);
  AwaitOthersQueued();
  if (device_) device_->NoteChange();
}

// A call that waits for this GPU, as one that frees its memory or copies to memory that is not
// page-locked, may hold locks of the driver meanwhile. So none is made before all ranks have queued
// what this one waits for: NCCL allocates while it connects GPUs for the first time.
void Solver::AwaitOthersQueued() { options_.ranks->Exchange(options_.rank, {}); }

double Solver::MeanLoss(double loss) {
  return options_.ranks == nullptr ? loss : options_.ranks->Mean(options_.rank, loss);
}

// Behind the exchange of losses all ranks have queued their passes, so that none waits in vain.
double Solver::JoinGradients(double loss) {
  if (options_.ranks == nullptr) return loss;
  const double mean = MeanLoss(loss);
  options_.ranks->collective().Sum(options_.rank, train_->context(),
                                   train_->LearnedGradientMemory());
  AwaitOthersQueued();
  return mean;
}

// Rank 0 tests while the others wait.
Solver::Ending Solver::TestAll() {
  if (options_.ranks == nullptr) return TestHere();
  GatherPositions();
  RankGroup::Note outcome;
  if (IsFirstRank()) {
    SolverState decided;
    outcome.number = static_cast<double>(TestHere());
    rate_->Save(&decided);
    outcome.text = decided.SerializeAsString();
  }
  outcome = options_.ranks->Lead(options_.rank, std::move(outcome));
  if (!IsFirstRank()) {
    SolverState decided;
    CREMA_CHECK(decided.ParseFromString(outcome.text));
    rate_->Restore(decided);
  }
  return static_cast<Ending>(outcome.number);
}

Request Solver::PollAll() {
  if (options_.ranks == nullptr) return Poll();
  const Request own = IsFirstRank() ? Poll() : Request::kNone;
  const auto number = static_cast<double>(own);
  return static_cast<Request>(options_.ranks->Lead(options_.rank, {.number = number}).number);
}

void Solver::GatherPositions() {
  if (options_.ranks == nullptr) return;
  DrainCompletedIterations(true);  // what ends the run does so before a snapshot
  SolverState own;
  train_->SaveState(NetOfRank(options_.rank), &own);
  const auto notes =
      options_.ranks->Exchange(options_.rank, {.number = 0, .text = own.SerializeAsString()});
  if (!IsFirstRank()) return;
  other_ranks_.Clear();
  for (const RankGroup::Note& note : notes.subspan(1)) {
    CREMA_CHECK(other_ranks_.MergeFromString(note.text));
  }
}

void Solver::RestoreTrainNet(const SolverState& state) {
  const int before = RanksOf(state);
  const int now = RankCount();
  if (before != now) {
    options_.log->Write(
        Severity::kWarning,
        StrCat("the run so far was on ", before, before == 1 ? " device" : " devices",
               " and continues on ", now, ", so that an iteration has ", now, "/", before,
               " times as many samples; data continue where they were"));
    return train_->RestoreState(std::string(kTrain), Dealt(state, before, now));
  }
  const std::string own = NetOfRank(options_.rank);
  SolverState renamed;
  for (const LayerState& layer : state.layer_state()) {
    if (layer.net() == own) *renamed.add_layer_state() = layer;
  }
  train_->RestoreState(own, renamed);
}

}  // namespace crema
