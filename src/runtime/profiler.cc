#include "runtime/profiler.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "runtime/session.h"

namespace crema {
namespace {

template <typename View>
int64_t BytesOf(std::span<const View> views) {
  int64_t bytes = 0;
  for (const View& view : views) bytes += view.empty() ? 0 : static_cast<int64_t>(view.bytes());
  return bytes;
}

int64_t BytesOf(const ForwardArgs& args) {
  return BytesOf(args.inputs) + BytesOf(args.outputs) + BytesOf(args.parameters) +
         BytesOf(args.saved);
}

// Gradients of parameters are added to: read and written.
int64_t BytesOf(const BackwardArgs& args) {
  return BytesOf(args.inputs) + BytesOf(args.outputs) + BytesOf(args.output_grads) +
         BytesOf(args.input_grads) + BytesOf(args.parameters) + 2 * BytesOf(args.parameter_grads) +
         BytesOf(args.saved);
}

// Each requested gradient needs the products of a forward pass: one for the parameters, one for the
// input (one for each input without parameters, as in MatMul).
int64_t BackwardMacs(const PlannedLayer& layer) {
  const auto inputs = std::ranges::count(layer.to_input, true);
  if (layer.to_parameters.empty()) return inputs * layer.info.macs;
  return ((inputs > 0 ? 1 : 0) + (layer.to_parameters[0] ? 1 : 0)) * layer.info.macs;
}

// Returns the batch size of the first source.
int64_t BatchOf(const Plan& plan) {
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.inputs.empty() || layer.outputs.empty()) continue;
    const Shape& shape = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
    return shape.axes() > 0 ? shape[0] : 0;
  }
  return 0;
}

double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

void FillStatistics(PassProfile* pass) {
  if (pass->runs.empty()) return;
  std::vector<int64_t> sorted;
  for (const TimeSpan& run : pass->runs) {
    sorted.push_back(run.end - run.begin);
    pass->total += Seconds(sorted.back());
  }
  std::ranges::sort(sorted);
  const size_t n = sorted.size();
  pass->median = Seconds(n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2);
  pass->p95 = Seconds(sorted[(95 * n + 99) / 100 - 1]);
}

using Clock = std::chrono::steady_clock;

int64_t Nanoseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// Times at which a GPU reached each mark of an iteration, by its own clock, without waiting in
// between.
class EventTimes {
 public:
  EventTimes(DeviceQueue& queue, size_t marks) : queue_(queue), start_(queue.MakeEvent(true)) {
    for (size_t i = 0; i < marks; ++i) marks_.push_back(queue.MakeEvent(true));
    spans_.reserve(marks);
  }

  // Starts an iteration at `now`. Waits.
  void Begin(int64_t now) {
    queue_.Synchronize();
    began_ = now;
    start_->Record(DeviceStream::kCompute);
    used_ = 0;
  }
  int64_t Mark() {
    marks_.at(used_)->Record(DeviceStream::kCompute);
    return static_cast<int64_t>(used_++);
  }
  void Add(PassProfile* pass, int64_t begin, int64_t end) { spans_.push_back({pass, begin, end}); }
  // Waits.
  void End() {
    queue_.Synchronize();
    for (const Span& span : spans_)
      span.pass->runs.push_back({TimeOf(span.begin), TimeOf(span.end)});
    spans_.clear();
  }

 private:
  struct Span {
    PassProfile* pass;
    int64_t begin, end;  // marks
  };

  int64_t TimeOf(int64_t mark) {
    const double seconds = marks_[static_cast<size_t>(mark)]->SecondsSince(*start_);
    return began_ + static_cast<int64_t>(1e9 * seconds);
  }

  DeviceQueue& queue_;
  std::unique_ptr<DeviceEvent> start_;
  std::vector<std::unique_ptr<DeviceEvent>> marks_;
  std::vector<Span> spans_;
  size_t used_ = 0;
  int64_t began_ = 0;
};

// Records the times of each layer, in memory reserved before the first pass.
class Recorder final : public LayerObserver {
 public:
  Recorder(const Session& session, const ProfileOptions& options)
      : plan_(session.plan()),
        heap_use_(options.heap_use),
        layers_(plan_.layers.size()),
        start_(Clock::now()) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const PlannedLayer& layer = plan_.layers[i];
      layers_[i].layer = i;
      layers_[i].forward.macs = layer.info.macs;
      layers_[i].backward.macs = BackwardMacs(layer);
      layers_[i].recompute.macs = layer.info.macs;
      const auto runs = static_cast<size_t>(options.iterations);
      if (layer.forward) layers_[i].forward.runs.reserve(runs);
      if (layer.backward) layers_[i].backward.runs.reserve(runs);
      if (layer.recompute) layers_[i].recompute.runs.reserve(runs);
    }
    if (!session.OnGpu()) return;
    const size_t spans = 3 * layers_.size() + 2;  // for the layers and both passes
    events_ = std::make_unique<EventTimes>(*session.context().queue(), 2 * spans);
  }

  void BeginIteration() {
    if (events_ != nullptr) events_->Begin(HostTime());
  }
  void EndIteration() {
    if (events_ != nullptr) events_->End();
  }

  void BeforeForward(size_t, const ForwardArgs&) override { layer_begin_ = Begin(); }
  void AfterForward(size_t layer, const ForwardArgs& args) override {
    End(layer_begin_, &layers_[layer].forward);
    // An Input copies nothing.
    const bool moves = plan_.layers[layer].type->name != "Input";
    layers_[layer].forward.bytes = moves ? BytesOf(args) : 0;
  }
  void BeforeBackward(size_t, const BackwardArgs&) override { layer_begin_ = Begin(); }
  void AfterBackward(size_t layer, const BackwardArgs& args) override {
    End(layer_begin_, &layers_[layer].backward);
    layers_[layer].backward.bytes = BytesOf(args);
  }
  void BeforeRecompute(size_t, const ForwardArgs&) override { layer_begin_ = Begin(); }
  void AfterRecompute(size_t layer, const ForwardArgs& args) override {
    End(layer_begin_, &layers_[layer].recompute);
    layers_[layer].recompute.bytes = BytesOf(args);
  }

  struct Mark {
    HeapUse heap;
    int64_t time = 0;  // on a GPU the index of a mark
  };
  Mark Begin() const { return {.heap = Heap(), .time = Now()}; }
  void End(const Mark& begin, PassProfile* pass) const {
    if (events_ != nullptr) {
      events_->Add(pass, begin.time, Now());
    } else {
      pass->runs.push_back({begin.time, Now()});
    }
    const HeapUse heap = Heap();
    pass->heap.allocations += heap.allocations - begin.heap.allocations;
    pass->heap.bytes += heap.bytes - begin.heap.bytes;
  }

  std::vector<LayerProfile> TakeLayers() { return std::move(layers_); }

 private:
  HeapUse Heap() const { return heap_use_ ? heap_use_() : HeapUse{}; }
  int64_t HostTime() const { return Nanoseconds(Clock::now() - start_); }
  int64_t Now() const { return events_ != nullptr ? events_->Mark() : HostTime(); }

  const Plan& plan_;
  const std::function<HeapUse()>& heap_use_;
  std::vector<LayerProfile> layers_;  // by layer of the plan
  Clock::time_point start_;
  Mark layer_begin_;
  std::unique_ptr<EventTimes> events_;  // on a GPU
};

// Sets the observer of the session during its lifetime, also if a layer throws.
class Observed {
 public:
  Observed(Session* session, LayerObserver* observer) : session_(session) {
    session_->set_observer(observer);
  }
  ~Observed() { session_->set_observer(nullptr); }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  Session* session_;
};

void CheckOptions(const ProfileOptions& options, size_t layers) {
  if (options.iterations < 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("iterations is ", options.iterations, "; at least 1 must be timed"));
  }
  if (options.warmup < 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("warmup is ", options.warmup, "; use 0 or more"));
  }
  constexpr int64_t kMostRuns = 50'000'000;  // 16 bytes each, twice
  const int64_t most = kMostRuns / static_cast<int64_t>(std::max<size_t>(layers, 1));
  if (options.iterations > most) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("iterations is ", options.iterations, "; the times of at most ", most,
                " can be kept for a net of ", layers, " layers"));
  }
}

void Warm(Session* session, int64_t passes) {
  for (int64_t i = 0; i < passes; ++i) {
    session->Forward();
    if (!session->plan().options.backward) continue;
    session->ZeroParameterGradients();
    session->Backward();
  }
}

void Time(Session* session, int64_t passes, Recorder* recorder, Profile* profile) {
  const Observed observed(session, recorder);
  const bool backward = session->plan().options.backward;
  for (int64_t i = 0; i < passes; ++i) {
    recorder->BeginIteration();
    const Recorder::Mark forward_begin = recorder->Begin();
    session->QueueForward();
    recorder->End(forward_begin, &profile->forward);
    if (backward) {
      session->ZeroParameterGradients();
      const Recorder::Mark backward_begin = recorder->Begin();
      session->Backward();
      recorder->End(backward_begin, &profile->backward);
    }
    recorder->EndIteration();
  }
}

// Computes the sums of the layers, and all statistics.
void Complete(Profile* profile) {
  std::erase_if(profile->layers, [](const LayerProfile& layer) {
    return layer.forward.runs.empty() && layer.backward.runs.empty();
  });
  for (LayerProfile& layer : profile->layers) {
    FillStatistics(&layer.forward);
    FillStatistics(&layer.backward);
    FillStatistics(&layer.recompute);
    profile->forward.macs += layer.forward.macs;
    profile->forward.bytes += layer.forward.bytes;
    profile->backward.macs += layer.backward.macs;
    profile->backward.bytes += layer.backward.bytes;
    if (layer.recompute.runs.empty()) continue;
    profile->backward.macs += layer.recompute.macs;
    profile->backward.bytes += layer.recompute.bytes;
  }
  FillStatistics(&profile->forward);
  FillStatistics(&profile->backward);
}

// Combines both passes as if the second had followed immediately.
PassProfile Joined(const PassProfile& forward, const PassProfile& backward) {
  PassProfile both = forward;
  both.total = 0;
  both.macs += backward.macs;
  both.bytes += backward.bytes;
  both.heap.allocations += backward.heap.allocations;
  both.heap.bytes += backward.heap.bytes;
  for (size_t i = 0; i < backward.runs.size(); ++i) {
    both.runs[i].end += backward.runs[i].end - backward.runs[i].begin;
  }
  FillStatistics(&both);
  return both;
}

double Rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

}  // namespace

double PassProfile::gflops() const { return Rate(2e-9 * static_cast<double>(macs), median); }

double PassProfile::gbs() const { return Rate(1e-9 * static_cast<double>(bytes), median); }

double Profile::images_per_second() const {
  return Rate(static_cast<double>(batch), iteration.median);
}

Profile ProfileSession(Session* session, const ProfileOptions& options) {
  const Plan& plan = session->plan();
  CheckOptions(options, plan.layers.size());
  session->set_observer(nullptr);
  Warm(session, options.warmup);
  Profile profile;
  profile.batch = BatchOf(plan);
  profile.heap_counted = static_cast<bool>(options.heap_use);
  profile.forward.runs.reserve(static_cast<size_t>(options.iterations));
  profile.backward.runs.reserve(static_cast<size_t>(options.iterations));
  Recorder recorder(*session, options);
  Time(session, options.iterations, &recorder, &profile);
  profile.layers = recorder.TakeLayers();
  Complete(&profile);
  profile.iteration = Joined(profile.forward, profile.backward);
  return profile;
}

}  // namespace crema
