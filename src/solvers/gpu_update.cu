// One update of all learned blobs in a few launches, whatever their number; see gpu_update.h.
#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "solvers/gpu_update.h"
#include "solvers/update_kernels.cuh"

namespace crema {
namespace {

struct RateAndDecay {
  double rate;
  double decay;
  friend bool operator==(const RateAndDecay&, const RateAndDecay&) = default;
};

// Which rows are of which group.
struct Grouping {
  std::vector<RateAndDecay> groups;
  std::vector<size_t> example;  // a blob of each
  std::vector<int32_t> of_blob;
};

Grouping GroupBlobs(std::span<const BlobUpdate> blobs) {
  Grouping grouping;
  for (size_t b = 0; b < blobs.size(); ++b) {
    const RateAndDecay wanted{blobs[b].rate, blobs[b].decay};
    const auto found = std::ranges::find(grouping.groups, wanted);
    grouping.of_blob.push_back(static_cast<int32_t>(found - grouping.groups.begin()));
    if (found != grouping.groups.end()) continue;
    grouping.groups.push_back(wanted);
    grouping.example.push_back(b);
  }
  return grouping;
}

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
    const size_t g = first + std::min(i, count - 1);  // the places behind the last are not read
    return typename StepGroups<Step>::Group{MakeStep<Step>(args, args.blobs[grouping.example[g]]),
                                            grouping.groups[g].rate, grouping.groups[g].decay};
  };
  return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return StepGroups<Step>{static_cast<int>(first), static_cast<int>(count), {group(kIndex)...}};
  }
  (std::make_index_sequence<kMost>());
}

// What an update is made of once its tables are on the GPU.
struct Launch {
  const CudaQueue& queue;
  const UpdateArgs& args;
  const Grouping& grouping;
  const UpdatePlaces& places;
  const GradientChange& change;
};

template <typename Step>
void UpdateBySteps(const Launch& l) {
  for (size_t g = 0; g < l.grouping.groups.size(); g += StepGroups<Step>::kMost) {
    UpdateWeights(l.queue, l.places, StepsOf<Step>(l.args, l.grouping, g), l.change, false);
  }
}

void UpdateByLars(const Launch& l) {
  const double trust = l.args.param.trust_coefficient();
  for (size_t g = 0; g < l.grouping.groups.size(); g += StepGroups<LarsStep<float>>::kMost) {
    const auto steps = StepsOf<LarsStep<float>>(l.args, l.grouping, g);
    FindLarsRatios(l.queue, l.places, steps, l.change, trust);
    UpdateWeights(l.queue, l.places, steps, l.change, true);
  }
}

void UpdateByLamb(const Launch& l) {
  for (size_t g = 0; g < l.grouping.groups.size(); g += StepGroups<LambStep<float>>::kMost) {
    const auto steps = StepsOf<LambStep<float>>(l.args, l.grouping, g);
    FindLambRatios(l.queue, l.places, steps, l.change, Moments<float>(l.args));
    UpdateWeights(l.queue, l.places, steps, l.change, true);
  }
}

using Updater = void (*)(const Launch&);

Updater FindUpdater(std::string_view rule) {
  static constexpr std::pair<std::string_view, Updater> kUpdaters[] = {
      {"SGD", UpdateBySteps<SgdStep<float>>},
      {"Nesterov", UpdateBySteps<NesterovStep<float>>},
      {"AdaGrad", UpdateBySteps<AdaGradStep<float>>},
      {"RMSProp", UpdateBySteps<RmsPropStep<float>>},
      {"AdaDelta", UpdateBySteps<AdaDeltaStep<float>>},
      {"Adam", UpdateBySteps<AdamStep<float>>},
      {"AdamW", UpdateBySteps<AdamWStep<float>>},
      {"LARS", UpdateByLars},
      {"LAMB", UpdateByLamb},
      {"Lion", UpdateBySteps<LionStep<float>>}};
  for (const auto& [name, updater] : kUpdaters) {
    if (name == rule) return updater;
  }
  Fail(ErrorCode::kUnsupported, StrCat("solver type '", rule, "' does not run on a GPU"));
}

class GpuUpdate final : public DeviceUpdate {
 public:
  explicit GpuUpdate(const ExecContext& context) : context_(context) {}

  void Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm) override;
  bool HasFiniteGradients(const UpdateArgs& args) override;
  void Average(std::span<const AveragedBlob> blobs, float step) override;
  int64_t FindBroken() override;

 private:
  void SetTables(const UpdateArgs& args, const Grouping& grouping);
  UpdatePlaces Places();

  const ExecContext& context_;
  DeviceTable<UpdatedBlob> blobs_;
  DeviceTable<UpdateChunk> chunks_;
  DeviceRows<SumPair> sums_;
  DeviceRows<double> ratios_;
  DeviceRows<float> scale_;
  DeviceRows<int32_t> broken_;
  DeviceRows<int64_t> first_broken_;
  bool applied_ = false;

  DeviceTable<AverageRow> averages_;
  DeviceTable<UpdateChunk> average_chunks_;
};

void GpuUpdate::SetTables(const UpdateArgs& args, const Grouping& grouping) {
  const auto chunks =
      ChunksOf(args.blobs.size(), [&](size_t b) { return args.blobs[b].weights.count(); });
  std::vector<UpdatedBlob> rows;
  for (size_t b = 0; b < args.blobs.size(); ++b) {
    const BlobUpdate& blob = args.blobs[b];
    UpdatedBlob row{.weights = blob.weights.data<float>(),
                    .gradient = blob.gradient.empty() ? nullptr : blob.gradient.data<float>(),
                    .history = {},
                    .first_chunk = rows.empty() ? 0 : rows.back().first_chunk + rows.back().chunks,
                    .chunks = static_cast<int32_t>((blob.weights.count() + kChunkElements - 1) /
                                                   kChunkElements),
                    .group = grouping.of_blob[b]};
    for (size_t h = 0; h < blob.history.size(); ++h) {
      row.history[h] = blob.history[h].data<float>();
    }
    rows.push_back(row);
  }
  const bool other_blobs = blobs_.Set(context_, rows);
  const bool other_chunks = chunks_.Set(context_, chunks);
  if (!other_blobs && !other_chunks) return;
  sums_.Allocate(context_, chunks.size());
  broken_.Allocate(context_, chunks.size());
  ratios_.Allocate(context_, rows.size());
  scale_.Allocate(context_, 1);
  first_broken_.Allocate(context_, 1);
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
          .first_broken = first_broken_.rows()};
}

void GpuUpdate::Apply(const UpdateRule& rule, const UpdateArgs& args, double clip_norm) {
  const Updater updater = FindUpdater(rule.name);
  if (args.blobs.empty()) return;
  const CudaQueue& queue = BoundQueue(context_);
  const Grouping grouping = GroupBlobs(args.blobs);
  SetTables(args, grouping);
  const UpdatePlaces places = Places();
  const bool clips = clip_norm >= 0;
  if (clips) ScaleByNorm(queue, places, args.gradient_scale, clip_norm);
  const GradientChange change{.scale = static_cast<float>(args.gradient_scale),
                              .device_scale = clips ? places.scale : nullptr,
                              .limit = static_cast<float>(args.gradient_limit),
                              .l1 = args.regularization == Regularization::kL1};
  updater({queue, args, grouping, places, change});
  FindFirstBroken(queue, places);
  applied_ = true;
}

bool GpuUpdate::HasFiniteGradients(const UpdateArgs& args) {
  if (args.blobs.empty()) return true;
  SetTables(args, GroupBlobs(args.blobs));
  JudgeGradients(BoundQueue(context_), Places());
  float finite = 0;
  Download(context_, &finite, scale_.rows(), sizeof(finite));
  return finite != 0;
}

void GpuUpdate::Average(std::span<const AveragedBlob> blobs, float step) {
  std::vector<AverageRow> rows;
  for (const AveragedBlob& blob : blobs) {
    rows.push_back({blob.average.data<float>(), blob.weights.data<float>(), blob.copied ? 1 : 0});
  }
  const CudaQueue& queue = BoundQueue(context_);
  averages_.Set(context_, rows);
  average_chunks_.Set(context_,
                      ChunksOf(blobs.size(), [&](size_t b) { return blobs[b].weights.count(); }));
  MoveAverages(queue, averages_.rows(), average_chunks_.rows(), average_chunks_.count(), step);
}

int64_t GpuUpdate::FindBroken() {
  if (!applied_) return -1;
  int64_t blob = -1;
  Download(context_, &blob, first_broken_.rows(), sizeof(blob));
  return blob;
}

}  // namespace

std::unique_ptr<DeviceUpdate> MakeGpuUpdate(const ExecContext& context) {
  return std::make_unique<GpuUpdate>(context);
}

}  // namespace crema
