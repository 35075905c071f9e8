#include "plan/memory/memory_budget.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "plan/memory/liveness.h"
#include "plan/memory/recompute.h"

namespace crema {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
// Cost of moving an element, in multiply-adds: the rates of a two-core server processor.
constexpr double kMacsPerElement = 30;
// Bound on layers examined while the search tries sets of layers: some seconds. Chains of thousands
// of layers reach it, and the error reports this.
constexpr size_t kMostWork = 50'000'000;

int64_t BytesOf(const BlobSpec& spec) {
  return spec.shape.count() * static_cast<int64_t>(SizeOf(spec.dtype));
}

// Layers that would run again together: each output is used only by the next layer.
struct Group {
  std::vector<int> layers;
  double rate = 0;  // cost per byte freed, as last measured or estimated
};

// Live bytes of the arena by pass of a layer: forward of layer n at n, backward at 2N-1-n. Layers
// that run again count with the backward pass that needs them.
struct Fill {
  std::vector<int64_t> bytes;
  size_t fullest = 0;

  int64_t peak() const { return bytes[fullest]; }
};

class BudgetFitter {
 public:
  explicit BudgetFitter(Plan* plan) : plan_(*plan), fill_(Measure()) {}

  // Returns true if the arena fits in `bytes` at the end.
  bool Fit(int64_t bytes) {
    Remember();
    if (Fits(bytes)) return true;
    for (const bool cheap : {true, false}) {
      CollectGroups(cheap);
      while (TakeBest()) {
        Remember();
        if (Fits(bytes)) return true;
      }
    }
    return false;
  }

  bool gave_up() const { return gave_up_; }
  // Returns the smallest arena of all sets of layers that were chosen so far.
  int64_t SmallestArena() {
    std::ranges::stable_sort(chosen_, {}, &Chosen::peak);
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (const Chosen& chosen : chosen_) {
      if (chosen.peak >= smallest) break;  // no arena is smaller than its largest live set
      for (size_t n = 0; n < plan_.layers.size(); ++n) {
        plan_.layers[n].recompute = chosen.recompute[n];
      }
      smallest = std::min(smallest, PlaceBuffers(FindLifetimes(&plan_)).arena_bytes);
    }
    return smallest;
  }

 private:
  struct Chosen {
    std::vector<bool> recompute;  // by layer
    int64_t peak = 0;
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  PlannedLayer& LayerOf(int n) { return plan_.layers[Index(n)]; }

  bool Fits(int64_t bytes) {
    return fill_.peak() <= bytes && PlaceBuffers(FindLifetimes(&plan_)).arena_bytes <= bytes;
  }

  void Remember() {
    chosen_.push_back({{}, fill_.peak()});
    for (const PlannedLayer& layer : plan_.layers) {
      chosen_.back().recompute.push_back(layer.recompute);
    }
  }

  Fill Measure() {
    const std::vector<int64_t> live = LiveBytes(FindLifetimes(&plan_));
    const Timeline timeline(plan_);
    const size_t n = plan_.layers.size();
    Fill fill{.bytes = std::vector<int64_t>(2 * n, 0)};
    const auto at = [&](size_t step) { return step < live.size() ? live[step] : 0; };
    for (size_t i = 0; i < n; ++i) fill.bytes[i] = at(i);
    size_t step = n;
    for (size_t i = n; i-- > 0;) {
      const auto last = Index(timeline.Backward(static_cast<int>(i)));
      for (; step <= last; ++step) {
        fill.bytes[2 * n - 1 - i] = std::max(fill.bytes[2 * n - 1 - i], at(step));
      }
    }
    fill.fullest =
        Index(static_cast<int>(std::ranges::max_element(fill.bytes) - fill.bytes.begin()));
    return fill;
  }

  bool IsCheap(int n) { return LayerOf(n).info.macs == 0; }

  bool CanRunAgain(int n, bool cheap) {
    const PlannedLayer& layer = LayerOf(n);
    if (layer.info.view || layer.info.share || (cheap && !IsCheap(n))) return false;
    const bool output = std::ranges::any_of(layer.outputs, [&](int v) {
      const PlannedValue& value = plan_.values[Index(v)];
      return value.is_output || value.loss_weight != 0;
    });
    return !output && WhyNotAgain(plan_, layer).empty();
  }

  double Cost(const PlannedLayer& layer) const {
    double cost = static_cast<double>(layer.info.macs);
    for (const std::vector<int>* values : {&layer.inputs, &layer.outputs}) {
      for (int v : *values) {
        cost += kMacsPerElement * static_cast<double>(plan_.values[Index(v)].spec.shape.count());
      }
    }
    return cost;
  }

  double Cost(const std::vector<int>& layers) {
    double cost = 0;
    for (int n : layers) cost += LayerOf(n).recompute ? 0 : Cost(LayerOf(n));
    return cost;
  }

  // Estimates the rate before measuring, as if these layers kept nothing.
  double GuessRate(const std::vector<int>& layers) {
    int64_t bytes = 1;
    for (int n : layers) {
      for (int v : LayerOf(n).outputs) bytes += BytesOf(plan_.values[Index(v)].spec);
      for (const BlobSpec& saved : LayerOf(n).info.saved) bytes += BytesOf(saved);
    }
    return Cost(layers) / static_cast<double>(bytes);
  }

  // Collects each layer alone, and together with the layers before it.
  void CollectGroups(bool cheap) {
    std::vector<bool> candidates(plan_.layers.size());
    for (size_t n = 0; n < candidates.size(); ++n) {
      candidates[n] = CanRunAgain(static_cast<int>(n), cheap);
    }
    groups_.clear();
    aside_.clear();
    taken_ = false;
    constexpr std::array<size_t, 6> kSizes = {1, 2, 3, 5, 8, 16};
    for (size_t n = 0; n < candidates.size(); ++n) {
      if (!candidates[n]) continue;
      size_t before = 0;
      for (size_t size : kSizes) {
        std::vector<int> layers = CandidatesBefore(static_cast<int>(n), size, candidates);
        if (layers.size() == before) break;
        before = layers.size();
        const double rate = GuessRate(layers);
        groups_.push_back({std::move(layers), rate});
      }
    }
    Sort();
  }

  // Returns layer n and up to size - 1 candidates before it, the nearest first.
  std::vector<int> CandidatesBefore(int n, size_t size, const std::vector<bool>& candidates) {
    std::vector<int> found;
    std::deque<int> open = {n};
    while (!open.empty() && found.size() < size) {
      const int layer = open.front();
      open.pop_front();
      const bool view = LayerOf(layer).info.view || LayerOf(layer).info.share;
      if (!view && (!candidates[Index(layer)] || std::ranges::count(found, layer) > 0)) continue;
      if (!view) found.push_back(layer);
      for (int v : LayerOf(layer).inputs) open.push_back(plan_.values[Index(v)].producer);
    }
    return found;
  }

  void Sort() { std::ranges::stable_sort(groups_, {}, &Group::rate); }

  // Takes the group with the best measured rate at the fullest step. Returns false if no group
  // frees memory there. Most rates do not change between choices, so a group is measured only when
  // it comes first, and put back if another group is better then.
  bool TakeBest() {
    if (gave_up_) return false;
    while (!groups_.empty() || RetryAside()) {
      Group group = std::move(groups_.front());
      groups_.pop_front();
      if (IsSpent(group)) continue;
      gave_up_ = ++tried_ * plan_.layers.size() > kMostWork;
      if (gave_up_) return false;
      const std::optional<Fill> trial = Try(group);
      if (!trial) {
        aside_.push_back(std::move(group));
        continue;
      }
      const int64_t freed = fill_.peak() - trial->bytes[fill_.fullest];
      group.rate = Cost(group.layers) / static_cast<double>(freed);
      if (!groups_.empty() && group.rate > groups_.front().rate) {
        const auto place = std::ranges::upper_bound(groups_, group.rate, {}, &Group::rate);
        groups_.insert(place, std::move(group));
        continue;
      }
      for (int n : group.layers) LayerOf(n).recompute = true;
      fill_ = *trial;
      taken_ = true;
      return true;
    }
    return false;
  }

  // Retries groups that freed nothing: they may free memory at another step, or with the groups
  // chosen since.
  bool RetryAside() {
    if (!taken_ || aside_.empty()) return false;
    taken_ = false;
    groups_ = std::exchange(aside_, {});
    Sort();
    return true;
  }

  bool IsSpent(const Group& group) {
    return std::ranges::all_of(group.layers, [&](int n) { return LayerOf(n).recompute; });
  }

  // Returns the fill with this group; nothing if it is no better at the fullest step, or worse
  // elsewhere.
  std::optional<Fill> Try(const Group& group) {
    std::vector<int> changed;
    for (int n : group.layers) {
      if (!LayerOf(n).recompute) changed.push_back(n);
    }
    if (changed.empty()) return {};
    for (int n : changed) LayerOf(n).recompute = true;
    Fill trial = Measure();
    for (int n : changed) LayerOf(n).recompute = false;
    const bool better = trial.bytes[fill_.fullest] < fill_.peak() && trial.peak() <= fill_.peak();
    return better ? std::optional(std::move(trial)) : std::nullopt;
  }

  Plan& plan_;
  Fill fill_;
  std::deque<Group> groups_;  // by rate
  std::deque<Group> aside_;   // freed nothing when it was their turn
  size_t tried_ = 0;
  bool gave_up_ = false;  // the search has reached its limit
  bool taken_ = false;    // a group, since the last RetryAside
  std::vector<Chosen> chosen_;
};

}  // namespace

void FitMemoryBudget(uint64_t mebibytes, const SourceMap& source, Plan* plan) {
  const PlanOptions& options = plan->options;
  if (mebibytes == 0 || !options.backward || !options.optimize || plan->layers.empty()) return;
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / kMebibyte;
  const int64_t bytes = static_cast<int64_t>(std::min(mebibytes, kMost)) * kMebibyte;
  if (PlaceBuffers(FindLifetimes(plan)).arena_bytes <= bytes) return;
  // Recomputed values have two places, and sub-views have one: the search would first have to free
  // the memory that separating them costs.
  for (PlannedLayer& layer : plan->layers) layer.can_concat_in_place = false;
  BudgetFitter fitter(plan);
  if (fitter.Fit(bytes)) return;
  const int64_t smallest = fitter.SmallestArena();
  Where where = source.Locate("memory_budget");
  where.field = "memory_budget";
  Fail(ErrorCode::kInvalidArgument,
       StrCat("memory_budget is ", mebibytes,
              " MiB, but the smallest that was found for the "
              "values of the net is ",
              (smallest + kMebibyte - 1) / kMebibyte, " MiB (", smallest, " bytes)",
              fitter.gave_up() ? ", before the search stopped because of too many layers" : "",
              "; allow that much, lower the batch size (iter_size makes up for it), or mark layers "
              "with `recompute` yourself, in long chains all but every tenth or so"),
       std::move(where));
}

}  // namespace crema
