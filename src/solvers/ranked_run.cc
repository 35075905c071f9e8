#include "solvers/ranked_run.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/byte_text.h"
#include "core/strings.h"
#include "format/seal.h"

namespace crema {
namespace {

constexpr std::string_view kTrain = "train";

// Returns the name of the training net of a rank in solver states: "train", "train@1", ...
std::string NetOfRank(int rank) {
  return rank == 0 ? std::string(kTrain) : StrCat(kTrain, "@", rank);
}

// Returns 0 also for a net of no rank.
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

// Divides the positions evenly: returns those of `now` ranks after each of `before` ranks was where
// rank 0 was.
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

// Statistics are each rank's own.
double ChecksumOfParameters(const Session& session) {
  uint32_t sum = 0;
  const std::vector<ParameterSlot>& slots = session.plan().parameters;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].statistic || slots[s].owner != static_cast<int>(s)) continue;
    const TensorView blob = session.Parameter(s);
    sum = Crc32({static_cast<const char*>(blob.raw()), blob.bytes()}, sum);
  }
  return sum;
}

}  // namespace

uint64_t RankedRun::StepOf(uint64_t step) const {
  constexpr int kBitsOfStep = 48;
  return step + (static_cast<uint64_t>(rank_) << kBitsOfStep);
}

void RankedRun::CopyFromFirst(int64_t iteration, const Session& train,
                              const std::vector<TensorView>& blobs) const {
  if (group_ == nullptr) return;
  const auto first = static_cast<double>(iteration);
  for (const RankGroup::Note& note : group_->Exchange(rank_, {.number = first})) {
    CREMA_CHECK(note.number == first);
  }
  group_->collective().CopyFromFirst(rank_, train.context(), blobs);
  AwaitOthersQueued(train);
}

// A call that waits for this GPU, such as one that frees GPU memory or copies to memory that is not
// page-locked, may hold locks of the driver. NCCL allocates while it connects GPUs for the first
// time, so no such call is made before all ranks have queued the collective that this one waits
// for.
void RankedRun::AwaitOthersQueued(const Session& train) const {
  if (train.OnGpu()) group_->Exchange(rank_, {});
}

double RankedRun::Mean(double loss) const {
  return group_ == nullptr ? loss : group_->Mean(rank_, loss);
}

void RankedRun::SumDuringBackward(Session* train) {
  if (group_ == nullptr || train->OnGpu()) return;
  Collective& collective = group_->collective();
  const size_t values = collective.bucket_values();
  if (values == 0) return;
  if (!buckets_) buckets_ = std::make_unique<GradientBuckets>(train, &collective, rank_, values);
  buckets_->Arm();
}

// After the exchange of losses all ranks have queued their passes, so that none waits in vain.
double RankedRun::SumGradients(double loss, Session* train, double seconds, int* asked) {
  if (group_ == nullptr) return loss;
  using Clock = std::chrono::steady_clock;
  RankGroup::Note own{.number = loss};
  AppendValue(seconds, &own.text);
  AppendValue(*asked, &own.text);
  double sum = 0;
  std::vector<double> passes;
  for (const RankGroup::Note& note : group_->Exchange(rank_, std::move(own))) {
    sum += note.number;
    std::string_view text = note.text;
    passes.push_back(TakeValue<double>(&text));
    *asked = std::max(*asked, TakeValue<int>(&text));
  }
  if (!buckets_) {
    group_->collective().Sum(rank_, train->context(), train->ParameterGradientMemory());
    AwaitOthersQueued(*train);
    return sum / count();
  }
  times_.passes = std::move(passes);
  const Clock::time_point start = Clock::now();
  buckets_->Finish();
  times_.exposed = std::chrono::duration<double>(Clock::now() - start).count();
  const double so_far = group_->collective().SumSeconds();
  times_.sums = so_far - std::exchange(sum_seconds_, so_far);
  return sum / count();
}

RankGroup::Note RankedRun::Lead(const std::function<RankGroup::Note()>& decide) const {
  if (group_ == nullptr) return decide();
  return group_->Lead(rank_, is_first() ? decide() : RankGroup::Note());
}

int RankedRun::Most(int own) const {
  double most = own;
  if (group_ == nullptr) return own;
  for (const RankGroup::Note& note : group_->Exchange(rank_, {.number = most})) {
    most = std::max(most, note.number);
  }
  return static_cast<int>(most);
}

std::vector<std::string> RankedRun::Share(std::string own) const {
  std::vector<std::string> texts;
  for (const RankGroup::Note& note : group_->Exchange(rank_, {.text = std::move(own)})) {
    texts.push_back(note.text);
  }
  return texts;
}

void RankedRun::ThrowIfFailed() const {
  if (group_ != nullptr) group_->ThrowIfFailed();
}

void RankedRun::KeepAlive() const {
  if (group_ != nullptr) group_->KeepAlive();
}

void RankedRun::AverageStatistics(const Session& train) const {
  RankSums* const sums = SumsInPass();
  if (sums == nullptr) return;
  std::vector<double> values;
  const auto for_each = [&train](const auto& call) {
    const std::vector<ParameterSlot>& slots = train.plan().parameters;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!slots[s].statistic || slots[s].owner != static_cast<int>(s)) continue;
      const TensorView blob = train.Parameter(s);
      DispatchFloat(blob.dtype(), [&]<typename T>(T) {
        for (T& value : blob.span<T>()) call(value);
      });
    }
  };
  for_each([&](auto value) { values.push_back(static_cast<double>(value)); });
  if (values.empty()) return;
  sums->SumNow(values);
  auto next = values.begin();
  for_each([&](auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(*next++ / count());
  });
}

bool RankedRun::GatherPositions(const Session& train) {
  if (group_ == nullptr) return true;
  SolverState own;
  train.SaveState(NetOfRank(rank_), &own);
  const double sum = train.OnGpu() ? 0 : ChecksumOfParameters(train);
  const auto notes = group_->Exchange(rank_, {.number = sum, .text = own.SerializeAsString()});
  if (is_first()) {
    others_.Clear();
    for (const RankGroup::Note& note : notes.subspan(1)) {
      CREMA_CHECK(others_.MergeFromString(note.text));
    }
  }
  return std::ranges::all_of(
      notes, [&](const RankGroup::Note& note) { return note.number == notes[0].number; });
}

void RankedRun::SavePositions(const Session& train, SolverState* state) const {
  train.SaveState(std::string(kTrain), state);
  state->mutable_layer_state()->MergeFrom(others_.layer_state());
}

void RankedRun::RestorePositions(const SolverState& state, Session* train, LogSink* log) const {
  const int before = RanksOf(state);
  const int now = count();
  if (before != now) {
    log->Write(Severity::kWarning,
               StrCat("the run so far was on ", before, before == 1 ? " device" : " devices",
                      " and continues on ", now, ", so that an iteration has ", now, "/", before,
                      " times as many samples; data continue where they were"));
    return train->RestoreState(std::string(kTrain), Dealt(state, before, now));
  }
  // Session::RestoreState names the layers of one net.
  train->RestoreState(NetOfRank(rank_), state);
}

}  // namespace crema
