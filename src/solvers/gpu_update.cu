// One update of all parameters in a few launches, whatever their number; see device_update.h.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "runtime/captured_graph.h"
#include "solvers/device_update.h"
#include "solvers/host_ring.h"
#include "solvers/update_kernels.cuh"

namespace crema {
namespace {

struct RateAndDecay {
  double rate;
  double decay;
  friend bool operator==(const RateAndDecay&, const RateAndDecay&) = default;
};

// Assigns blobs to groups.
struct Grouping {
  std::vector<RateAndDecay> groups;
  std::vector<size_t> example;  // the index of one blob of each
  std::vector<int32_t> of_blob;

  // Allocates nothing if the number of blobs is unchanged.
  void Set(std::span<const BlobUpdate> blobs) {
    groups.clear();
    example.clear();
    of_blob.clear();
    for (size_t b = 0; b < blobs.size(); ++b) {
      const RateAndDecay wanted{blobs[b].rate, blobs[b].decay};
      const auto found = std::ranges::find(groups, wanted);
      of_blob.push_back(static_cast<int32_t>(found - groups.begin()));
      if (found != groups.end()) continue;
      groups.push_back(wanted);
      example.push_back(b);
    }
  }
};

template <typename Step>
Step MakeStep(const UpdateArgs& args, const BlobUpdate& blob) {
  if constexpr (std::is_constructible_v<Step, const UpdateArgs&, const BlobUpdate&, double>) {
    return Step(args, blob, 1);
  } else {
    return Step(args, blob);
  }
}

template <typename Step>
StepGroups<Step> StepsOf(const UpdateArgs& args, const Grouping& grouping, size_t first) {
  constexpr size_t kMost = StepGroups<Step>::kMost;
  const size_t count = std::min(kMost, grouping.groups.size() - first);
  const auto group = [&](size_t i) {
    const size_t g = first + std::min(i, count - 1);  // the places after the last are not read
    return typename StepGroups<Step>::Group{MakeStep<Step>(args, args.blobs[grouping.example[g]]),
                                            grouping.groups[g].rate, grouping.groups[g].decay};
  };
  return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return StepGroups<Step>{static_cast<int>(first), static_cast<int>(count), {group(kIndex)...}};
  }
  (std::make_index_sequence<kMost>());
}

// The inputs of an update whose tables and steps are on the GPU. Launches may be captured: they
// depend on nothing else.
struct Launch {
  const CudaQueue& queue;
  size_t groups;
  const std::byte* steps;
  const UpdatePlaces& places;
  const GradientChange& change;
  double trust;
};

template <typename Step>
constexpr size_t kGroupsALaunch = StepGroups<Step>::kMost;

// The steps of all launches, contiguous.
template <typename Step>
size_t StepBytes(size_t groups) {
  return (groups + kGroupsALaunch<Step> - 1) / kGroupsALaunch<Step> * sizeof(StepGroups<Step>);
}

template <typename Step>
void WriteSteps(const UpdateArgs& args, const Grouping& grouping, std::byte* to) {
  static_assert(std::is_trivially_copyable_v<StepGroups<Step>>);
  for (size_t g = 0; g < grouping.groups.size(); g += kGroupsALaunch<Step>) {
    const StepGroups<Step> steps = StepsOf<Step>(args, grouping, g);
    std::memcpy(to, &steps, sizeof(steps));
    to += sizeof(steps);
  }
}

// Calls body(steps) for each launch.
template <typename Step, typename Body>
void ForLaunches(const Launch& l, const Body& body) {
  const auto* steps = reinterpret_cast<const StepGroups<Step>*>(l.steps);
  for (size_t g = 0; g < l.groups; g += kGroupsALaunch<Step>) body(steps++);
}

template <typename Step>
void UpdateBySteps(const Launch& l) {
  ForLaunches<Step>(l, [&](const StepGroups<Step>* steps) {
    UpdateWeights(l.queue, l.places, steps, l.change, false);
  });
}

void UpdateByLars(const Launch& l) {
  using Step = LarsStep<float>;
  ForLaunches<Step>(l, [&](const StepGroups<Step>* steps) {
    FindLarsRatios(l.queue, l.places, steps, l.change, l.trust);
    UpdateWeights(l.queue, l.places, steps, l.change, true);
  });
}

// Its moments follow its steps.
size_t LambBytes(size_t groups) {
  return StepBytes<LambStep<float>>(groups) + sizeof(Moments<float>);
}
void WriteLamb(const UpdateArgs& args, const Grouping& grouping, std::byte* to) {
  WriteSteps<LambStep<float>>(args, grouping, to);
  const Moments<float> moments(args);
  std::memcpy(to + StepBytes<LambStep<float>>(grouping.groups.size()), &moments, sizeof(moments));
}
void UpdateByLamb(const Launch& l) {
  using Step = LambStep<float>;
  const auto* moments =
      reinterpret_cast<const Moments<float>*>(l.steps + StepBytes<Step>(l.groups));
  ForLaunches<Step>(l, [&](const StepGroups<Step>* steps) {
    FindLambRatios(l.queue, l.places, steps, l.change, moments);
    UpdateWeights(l.queue, l.places, steps, l.change, true);
  });
}

struct Updater {
  std::string_view rule;
  size_t (*bytes)(size_t groups);
  void (*write)(const UpdateArgs& args, const Grouping& grouping, std::byte* to);
  void (*launch)(const Launch&);
};

template <typename Step>
constexpr Updater BySteps(std::string_view rule) {
  return {rule, StepBytes<Step>, WriteSteps<Step>, UpdateBySteps<Step>};
}

const Updater& FindUpdater(std::string_view rule) {
  static constexpr Updater kUpdaters[] = {
      BySteps<SgdStep<float>>("SGD"),
      BySteps<NesterovStep<float>>("Nesterov"),
      BySteps<AdaGradStep<float>>("AdaGrad"),
      BySteps<RmsPropStep<float>>("RMSProp"),
      BySteps<AdaDeltaStep<float>>("AdaDelta"),
      BySteps<AdamStep<float>>("Adam"),
      BySteps<AdamWStep<float>>("AdamW"),
      {"LARS", StepBytes<LarsStep<float>>, WriteSteps<LarsStep<float>>, UpdateByLars},
      {"LAMB", LambBytes, WriteLamb, UpdateByLamb},
      BySteps<LionStep<float>>("Lion")};
  const auto* found = std::ranges::find(kUpdaters, rule, &Updater::rule);
  if (found != std::end(kUpdaters)) return *found;
  Fail(ErrorCode::kUnsupported, StrCat("solver type '", rule, "' does not run on a GPU"));
}

// The values that captured launches of an update depend on.
struct UpdateKey {
  const Updater* updater = nullptr;
  size_t groups = 0;
  double scale = 0, clip_norm = 0, limit = 0, trust = 0;
  int64_t growth_interval = 0;
  bool l1 = false;
  friend bool operator==(const UpdateKey&, const UpdateKey&) = default;
};

class GpuUpdate final : public DeviceUpdate {
 public:
  explicit GpuUpdate(const ExecContext& context);

  void Begin(const DeviceRun& run) override;
  const double* ScalePlace() override { return &run_.rows()->scale.scale; }
  void NoteLoss(const double* loss, int64_t pass) override;
  void Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
             int64_t growth_interval) override;
  void Average(std::span<const AveragedBlob> blobs, float step) override;
  void EndIteration() override;
  std::optional<DeviceRun> TakeOutcome(bool wait) override;
  std::vector<GradientReport> BrokenGradients() override;

 private:
  void SetTables(const UpdateArgs& args);
  void SendSteps(const Updater& updater, const UpdateArgs& args);
  UpdatePlaces Places();

  const ExecContext& context_;
  DeviceQueue& queue_;
  DeviceTable<UpdatedBlob> blobs_;
  DeviceTable<UpdateChunk> chunks_;
  DeviceRows<SumPair> sums_;
  DeviceRows<double> ratios_;
  DeviceRows<float> scale_;
  DeviceRows<int32_t> broken_;
  DeviceRows<GradientReport> reports_;
  DeviceRows<DeviceRun> run_;
  Grouping grouping_;
  std::vector<UpdatedBlob> rows_;
  HostRing<DeviceRun> outcomes_;
  HostRing<std::byte> steps_;
  DeviceRows<std::byte> steps_there_;
  size_t step_bytes_ = 0;
  CapturedGraph captured_;
  UpdateKey key_;
  uint64_t version_ = 0;  // of the values that captured launches depend on

  DeviceTable<AverageRow> averages_;
  DeviceTable<UpdateChunk> average_chunks_;
  std::vector<AverageRow> average_rows_;
};

GpuUpdate::GpuUpdate(const ExecContext& context)
    : context_(context),
      queue_(*context.queue()),
      outcomes_(queue_, kMostAhead),
      steps_(queue_, kMostAhead) {
  run_.Allocate(context_, 1);
  scale_.Allocate(context_, 1);
  outcomes_.Reserve(1);
  Begin({});
}

void GpuUpdate::Begin(const DeviceRun& run) {
  Upload(context_, run_.rows(), &run, sizeof(run));
  outcomes_.Clear();
}

void GpuUpdate::NoteLoss(const double* loss, int64_t pass) {
  NotePassLoss(BoundQueue(context_), run_.rows(), loss, pass);
}

// Chunks depend on the counts of elements, so they are rebuilt only if these have changed.
void GpuUpdate::SetTables(const UpdateArgs& args) {
  rows_.clear();
  for (size_t b = 0; b < args.blobs.size(); ++b) {
    const BlobUpdate& blob = args.blobs[b];
    UpdatedBlob row{
        .weights = blob.weights.data<float>(),
        .gradient = blob.gradient.empty() ? nullptr : blob.gradient.data<float>(),
        .history = {},
        .count = blob.weights.count(),
        .first_chunk = rows_.empty() ? 0 : rows_.back().first_chunk + rows_.back().chunks,
        .chunks =
            static_cast<int32_t>((blob.weights.count() + kChunkElements - 1) / kChunkElements),
        .group = grouping_.of_blob[b]};
    for (size_t h = 0; h < blob.history.size(); ++h) {
      row.history[h] = blob.history[h].data<float>();
    }
    rows_.push_back(row);
  }
  if (!blobs_.Set(context_, rows_)) return;
  ++version_;
  const auto chunks = ChunksOf(rows_.size(), [&](size_t b) { return rows_[b].count; });
  chunks_.Set(context_, chunks);
  sums_.Allocate(context_, chunks.size());
  broken_.Allocate(context_, chunks.size());
  ratios_.Allocate(context_, rows_.size());
  reports_.Allocate(context_, rows_.size());
}

void GpuUpdate::SendSteps(const Updater& updater, const UpdateArgs& args) {
  const size_t bytes = updater.bytes(grouping_.groups.size());
  if (bytes > step_bytes_) {
    ++version_;
    step_bytes_ = bytes;
    steps_.Reserve(bytes);
    steps_there_.Allocate(context_, bytes);
  }
  std::byte* host = steps_.Next();
  updater.write(args, grouping_, host);
  queue_.CopyToDeviceAsync(DeviceStream::kCompute, steps_there_.rows(), host, bytes);
  steps_.Record();
  steps_.Drop();  // read by the GPU only
}

UpdatePlaces GpuUpdate::Places() {
  return {.blobs = blobs_.rows(),
          .chunks = chunks_.rows(),
          .blob_count = blobs_.count(),
          .chunk_count = chunks_.count(),
          .sums = sums_.rows(),
          .ratios = ratios_.rows(),
          .scale = scale_.rows(),
          .broken = broken_.rows(),
          .reports = reports_.rows(),
          .run = run_.rows()};
}

void GpuUpdate::Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
                      int64_t growth_interval) {
  const Updater& updater = FindUpdater(rule.name);
  if (args.blobs.empty()) return;
  const CudaQueue& queue = BoundQueue(context_);
  grouping_.Set(args.blobs);
  SetTables(args);
  SendSteps(updater, args);
  const UpdateKey key{.updater = &updater,
                      .groups = grouping_.groups.size(),
                      .scale = args.gradient_scale,
                      .clip_norm = clip_norm,
                      .limit = args.gradient_limit,
                      .trust = args.param.trust_coefficient(),
                      .growth_interval = growth_interval,
                      .l1 = args.regularization == Regularization::kL1};
  if (!(key == key_)) ++version_;
  key_ = key;
  const auto launch = [&] {
    const UpdatePlaces places = Places();
    const GradientChange change{
        .scale = places.scale, .limit = static_cast<float>(key.limit), .l1 = key.l1};
    BeginUpdate(queue, places, {key.scale, key.clip_norm, key.growth_interval});
    updater.launch({queue, key.groups, steps_there_.rows(), places, change, key.trust});
    JudgeWeights(queue, places);
  };
  captured_.Run(&queue_, version_, std::ref(launch));
}

void GpuUpdate::Average(std::span<const AveragedBlob> blobs, float step) {
  average_rows_.clear();
  for (const AveragedBlob& blob : blobs) {
    average_rows_.push_back(
        {blob.average.data<float>(), blob.weights.data<float>(), blob.copied ? 1 : 0});
  }
  const CudaQueue& queue = BoundQueue(context_);
  if (averages_.Set(context_, average_rows_)) {
    average_chunks_.Set(context_,
                        ChunksOf(blobs.size(), [&](size_t b) { return blobs[b].weights.count(); }));
  }
  MoveAverages(queue, run_.rows(), averages_.rows(), average_chunks_.rows(),
               average_chunks_.count(), step);
}

void GpuUpdate::EndIteration() {
  queue_.CopyToHostAsync(outcomes_.Next(), run_.rows(), sizeof(DeviceRun));
  outcomes_.Record();
}

std::optional<DeviceRun> GpuUpdate::TakeOutcome(bool wait) {
  const DeviceRun* outcome = outcomes_.Take(wait);
  return outcome == nullptr ? std::nullopt : std::optional(*outcome);
}

std::vector<GradientReport> GpuUpdate::BrokenGradients() {
  std::vector<GradientReport> reports(rows_.size());
  Download(context_, reports.data(), reports_.rows(), reports.size() * sizeof(GradientReport));
  return reports;
}

}  // namespace

std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context) {
  return std::make_unique<GpuUpdate>(context);
}

}  // namespace crema
