// The kernels of an update on a GPU, one team for each chunk of a blob (update_tables.cuh). The
// step of a rule (rules/steps.h) updates one weight, as on the CPU. Sums are computed by chunk and
// then over chunks in a fixed order.
#pragma once

#include <cmath>
#include <cstdint>

#include "math/cuda/group_sums.cuh"
#include "math/cuda/launch.cuh"
#include "solvers/device_run.h"
#include "solvers/rules/layerwise_steps.h"
#include "solvers/rules/steps.h"
#include "solvers/update_tables.cuh"

namespace crema {

struct UpdatedBlob {
  float* weights;
  const float* gradient;  // null: zero
  float* history[2];
  int64_t count;
  int64_t first_chunk;
  int32_t chunks;
  int32_t group;  // of blobs with the same rate and decay
  friend bool operator==(const UpdatedBlob&, const UpdatedBlob&) = default;
};

// One update.
struct UpdatePlaces {
  const UpdatedBlob* blobs;
  const UpdateChunk* chunks;
  int64_t blob_count;
  int64_t chunk_count;
  SumPair* sums;            // by chunk
  double* ratios;           // by blob
  float* scale;             // of gradients
  int32_t* broken;          // by chunk: 1 if it then has a number that is not finite
  GradientReport* reports;  // by blob
  DeviceRun* run;
};

// Converts raw gradients to those of the rule, without the decay.
struct GradientChange {
  const float* scale;
  float limit;
  bool l1;
};

CREMA_HOST_DEVICE inline float GradientOf(const UpdatedBlob& blob, int64_t at, float scale,
                                          float limit) {
  return blob.gradient == nullptr ? 0.0F : Clamp(scale * blob.gradient[at], limit);
}

// Blobs of the same rate and decay share a step. Groups beyond kMost use another launch. Kernels
// read the groups from GPU memory: they change from one iteration to the next, while captured
// launches do not.
template <typename Step>
struct StepGroups {
  static constexpr int kMost = 16;
  struct Group {
    Step step;
    double rate;
    double decay;
  };
  int first;
  int count;
  Group groups[kMost];
};

template <typename Step>
CREMA_HOST_DEVICE bool StepElement(const Step& step, const UpdatedBlob& blob, int64_t at, float w,
                                   float g) {
  float next, h = blob.history[0][at];
  bool finite = true;
  if constexpr (Step::kHistories == 2) {
    float k = blob.history[1][at];
    next = step(w, g, h, k);
    blob.history[1][at] = k;
    finite = std::isfinite(k);
  } else {
    next = step(w, g, h);
  }
  blob.history[0][at] = h;
  blob.weights[at] = next;
  return finite && std::isfinite(h) && std::isfinite(next);
}

// `rated`: the rate of a step is that of its group times the ratio of the blob.
template <typename Step>
static void UpdateWeights(const CudaQueue& queue, const UpdatePlaces& places,
                          const StepGroups<Step>* steps, const GradientChange& change, bool rated) {
  constexpr bool kDecayed = Step::kDecay == Decay::kInGradient;
  ForTeams(queue, "UpdateWeights", places.chunk_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             if (!places.run->Updates()) return;
             const UpdateChunk chunk = places.chunks[index];
             const UpdatedBlob blob = places.blobs[chunk.blob];
             const int group = blob.group - steps->first;
             if (group < 0 || group >= steps->count) return;  // belongs to another launch
             Step step = steps->groups[group].step;
             if (rated) {
               step.rate =
                   static_cast<float>(steps->groups[group].rate * places.ratios[chunk.blob]);
             }
             const float decay = kDecayed ? static_cast<float>(steps->groups[group].decay) : 0.0F;
             const float scale = *change.scale;
             // One thread owns each element, so that the reduction may write it.
             const int broken = team.Reduce<int>(
                 chunk.count, 0,
                 [&](int any, int64_t i) {
                   const int64_t at = chunk.begin + i;
                   const float w = blob.weights[at];
                   const float g = GradientOf(blob, at, scale, change.limit) +
                                   decay * (change.l1 ? Sign(w) : w);
                   return StepElement(step, blob, at, w, g) ? any : 1;
                 },
                 [](int a, int b) { return a | b; });
             team.For(1, [&](int64_t) { places.broken[index] = broken; });
           });
}

#ifdef __CUDACC__
__device__ inline GradientReport OfLane(const GradientReport& report, int mask) {
  return {OfLane(report.broken, mask), OfLane(report.first_at, mask), OfLane(report.first, mask),
          OfLane(report.largest, mask)};
}
#endif

CREMA_HOST_DEVICE inline GradientReport Joined(GradientReport a, GradientReport b) {
  const bool first = b.broken == 0 || (a.broken > 0 && a.first_at < b.first_at);
  return {a.broken + b.broken, first ? a.first_at : b.first_at, first ? a.first : b.first,
          a.largest > b.largest ? a.largest : b.largest};
}

CREMA_HOST_DEVICE inline GradientReport ReportOn(int64_t at, float g) {
  if (std::isfinite(g)) return {0, -1, 0, static_cast<double>(g < 0 ? -g : g)};
  return {1, at, static_cast<double>(g), 0};
}

// Ends a run whose weights are broken, and examines the gradients while they are still those of
// this update. This is slow, and happens once.
static void JudgeWeights(const CudaQueue& queue, const UpdatePlaces& places) {
  ForTeams(queue, "JudgeWeights", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    if (!places.run->Updates()) return;
    const int64_t none = places.blob_count;
    const int64_t first = team.Reduce<int64_t>(
        places.chunk_count, none,
        [&](int64_t least, int64_t i) {
          const int64_t blob = places.broken[i] != 0 ? places.chunks[i].blob : none;
          return blob < least ? blob : least;
        },
        [](int64_t a, int64_t b) { return a < b ? a : b; });
    if (first == none) return;
    for (int64_t index = 0; index < places.blob_count; ++index) {
      const UpdatedBlob blob = places.blobs[index];
      const GradientReport report = team.Reduce<GradientReport>(
          blob.gradient == nullptr ? 0 : blob.count, GradientReport{0, -1, 0, 0},
          [&](GradientReport r, int64_t i) { return Joined(r, ReportOn(i, blob.gradient[i])); },
          [](GradientReport a, GradientReport b) { return Joined(a, b); });
      team.For(1, [&](int64_t) { places.reports[index] = report; });
    }
    team.For(1, [&](int64_t) {
      places.run->blob = first;
      places.run->end = RunEnd::kUpdate;
    });
  });
}

static void NotePassLoss(const CudaQueue& queue, DeviceRun* run, const double* loss, int64_t pass) {
  ForElements(queue, "NoteLoss", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    if (pass == 0) {
      run->loss = 0;
      run->skips = 0;
    }
    run->loss += *loss;
    if (run->end != RunEnd::kNone || std::isfinite(*loss)) return;
    run->end = RunEnd::kLoss;
    run->pass = pass;
    run->bad_loss = *loss;
  });
}

static void SquareGradients(const CudaQueue& queue, const UpdatePlaces& places) {
  ForTeams(queue, "SquareGradients", places.chunk_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             const UpdateChunk chunk = places.chunks[index];
             const float* gradient = places.blobs[chunk.blob].gradient;
             const double sum = team.Sum(chunk.count, [&](int64_t i) {
               const double g = gradient == nullptr ? 0.0F : gradient[chunk.begin + i];
               return g * g;
             });
             team.For(1, [&](int64_t) { places.sums[index] = {sum, 0}; });
           });
}

// The inputs of BeginUpdate.
struct UpdateBegin {
  double scale;             // of gradients without a loss scale
  double clip_norm;         // of those, too; negative: none
  int64_t growth_interval;  // 0: the loss scale is not judged
};

// Judges the loss scale (squares of finite numbers are finite in double, and so is their sum), and
// writes the factor of all gradients: smaller if their norm exceeds the clipping norm.
static void BeginUpdate(const CudaQueue& queue, const UpdatePlaces& places,
                        const UpdateBegin& begin) {
  const bool sums = begin.clip_norm >= 0 || begin.growth_interval > 0;
  if (sums) SquareGradients(queue, places);
  const int64_t chunks = sums ? places.chunk_count : 0;
  ForTeams(queue, "BeginUpdate", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const double sum = team.Sum(chunks, [&](int64_t i) { return places.sums[i].first; });
    team.For(1, [&](int64_t) {
      DeviceRun& run = *places.run;
      run.tried = run.scale.scale;
      if (begin.growth_interval > 0 && run.end == RunEnd::kNone) {
        run.skips = run.scale.Judge(std::isfinite(sum), begin.growth_interval) ? 0 : 1;
        if (run.scale.IsSpent()) run.end = RunEnd::kScale;
      }
      const double scale = begin.scale / run.tried;
      const double largest = begin.clip_norm * run.tried;
      const double norm = std::sqrt(sum);
      const bool clips = begin.clip_norm >= 0 && norm > largest;
      *places.scale = static_cast<float>(clips ? scale * largest / norm : scale);
    });
  });
}

// Returns the two sums of a chunk over its elements; pair(i) may write element i.
template <typename Pair>
CREMA_HOST_DEVICE inline SumPair SumChunk(const Team& team, const UpdateChunk& chunk,
                                          const Pair& pair) {
  return team.Reduce<SumPair>(
      chunk.count, SumPair{0, 0},
      [&](SumPair sum, int64_t i) { return sum + pair(chunk.begin + i); },
      [](SumPair a, SumPair b) { return a + b; });
}

CREMA_HOST_DEVICE inline SumPair SumBlob(const Team& team, const UpdatePlaces& places,
                                         int64_t blob) {
  const int64_t first = places.blobs[blob].first_chunk;
  return team.Reduce<SumPair>(
      places.blobs[blob].chunks, SumPair{0, 0},
      [&](SumPair sum, int64_t i) { return sum + places.sums[first + i]; },
      [](SumPair a, SumPair b) { return a + b; });
}

static void FindLarsRatios(const CudaQueue& queue, const UpdatePlaces& places,
                           const StepGroups<LarsStep<float>>* steps, const GradientChange& change,
                           double trust) {
  ForTeams(queue, "LarsSums", places.chunk_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             if (!places.run->Updates()) return;
             const UpdateChunk chunk = places.chunks[index];
             const UpdatedBlob blob = places.blobs[chunk.blob];
             const float scale = *change.scale;
             const SumPair sums = SumChunk(team, chunk, [&](int64_t at) {
               const double w = blob.weights[at];
               const double g = GradientOf(blob, at, scale, change.limit);
               return SumPair{w * w, g * g};
             });
             team.For(1, [&](int64_t) { places.sums[index] = sums; });
           });
  ForTeams(queue, "LarsRatios", places.blob_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t b) {
             if (!places.run->Updates()) return;
             const int group = places.blobs[b].group - steps->first;
             if (group < 0 || group >= steps->count) return;
             const SumPair sums = SumBlob(team, places, b);
             const double decay = steps->groups[group].decay;
             team.For(1, [&](int64_t) {
               places.ratios[b] = LarsRatio(sums.first, sums.second, decay, trust);
             });
           });
}

// The first pass of LAMB: updates the means, and computes the ratios.
static void FindLambRatios(const CudaQueue& queue, const UpdatePlaces& places,
                           const StepGroups<LambStep<float>>* steps, const GradientChange& change,
                           const Moments<float>* moments) {
  ForTeams(queue, "LambSums", places.chunk_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             if (!places.run->Updates()) return;
             const UpdateChunk chunk = places.chunks[index];
             const UpdatedBlob blob = places.blobs[chunk.blob];
             const int group = blob.group - steps->first;
             if (group < 0 || group >= steps->count) return;
             const LambDirection<float> direction = steps->groups[group].step.direction;
             const float scale = *change.scale;
             const SumPair sums = SumChunk(team, chunk, [&](int64_t at) {
               float& mean = blob.history[0][at];
               float& square = blob.history[1][at];
               moments->Add(GradientOf(blob, at, scale, change.limit), mean, square);
               const double w = blob.weights[at];
               const double u = direction(blob.weights[at], mean, square);
               return SumPair{w * w, u * u};
             });
             team.For(1, [&](int64_t) { places.sums[index] = sums; });
           });
  ForTeams(queue, "LambRatios", places.blob_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t b) {
             if (!places.run->Updates()) return;
             const int group = places.blobs[b].group - steps->first;
             if (group < 0 || group >= steps->count) return;
             const SumPair sums = SumBlob(team, places, b);
             team.For(1, [&](int64_t) { places.ratios[b] = LambRatio(sums.first, sums.second); });
           });
}

struct AverageRow {
  float* average;
  const float* weights;
  int64_t copied;  // 0 or 1
  friend bool operator==(const AverageRow&, const AverageRow&) = default;
};

static void MoveAverages(const CudaQueue& queue, const DeviceRun* run, const AverageRow* blobs,
                         const UpdateChunk* chunks, int64_t chunk_count, float step) {
  ForTeams(queue, "MoveAverages", chunk_count,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             if (!run->Updates()) return;
             const UpdateChunk chunk = chunks[index];
             const AverageRow blob = blobs[chunk.blob];
             team.For(chunk.count, [&](int64_t i) {
               const int64_t at = chunk.begin + i;
               const float w = blob.weights[at];
               float& average = blob.average[at];
               average = blob.copied != 0 ? w : average + step * (w - average);
             });
           });
}

}  // namespace crema
