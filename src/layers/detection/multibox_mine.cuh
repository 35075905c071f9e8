// Mining of MultiBoxLoss on GPUs, like multibox_image.cc, with one team per image.
#pragma once

#include "crema.pb.h"
#include "layers/detection/multibox_lists.cuh"

namespace crema {

// Writes the cost of each prior: as background, or in total for HARD_EXAMPLE.
template <typename T>
void FillCosts(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  const bool hard = batch.rule.mining == MultiBoxLossParameter::HARD_EXAMPLE;
  ForElements(queue, "MiningCosts", batch.sizes.boxes.images * priors,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t n = i / priors, p = i % priors;
                const int64_t match = batch.lists.match[i];
                const bool near = !(batch.lists.overlap[i] < batch.rule.negative_overlap);
                batch.lists.cost[i] = -std::numeric_limits<double>::infinity();
                if (hard ? match == kIgnoredBox : match != kUnmatched || near) return;
                double cost = batch.ConfLoss(
                    n, p, hard ? batch.ClassOf(n, p) : batch.rule.background, false, NoSlope{});
                if (match >= 0) cost += batch.LocLoss(n, 0, p, NoSlope{});
                batch.lists.cost[i] = RankableCost(cost);
              });
}

// Writes ranked[0 ..): all priors with a cost, in descending order of cost. Returns their number.
template <typename T>
CREMA_HOST_DEVICE int64_t RankCosts(const Team& team, const MultiBoxBatch<T>& batch, int64_t n) {
  const int64_t priors = batch.sizes.boxes.priors;
  const double* cost = batch.lists.cost + n * priors;
  Ranked<double>* ranked = batch.lists.ranked + n * priors;
  const int64_t count = Compact(
      team, priors, [&](int64_t p) { return cost[p] > -std::numeric_limits<double>::infinity(); },
      [&](int64_t p, int64_t place) {
        ranked[place] = Ranked<double>{cost[p], static_cast<int32_t>(p)};
      });
  SortBestFirst(team, count, ranked);
  return count;
}

// Selects the most costly priors that are far from all objects, at most a multiple of the matches.
template <typename T>
void MineNegatives(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  ForTeams(queue, "MineNegatives", batch.sizes.boxes.images,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             const Ranked<double>* ranked = batch.lists.ranked + n * priors;
             uint8_t* negative = batch.lists.negative + n * priors;
             const int64_t found = RankCosts(team, batch, n);
             const int64_t matches =
                 team.Sum(priors, [&](int64_t p) -> int64_t { return batch.Match(n, 0, p) >= 0; });
             const double wanted = static_cast<double>(matches) * batch.rule.negatives_per_match;
             const int64_t count =
                 wanted < static_cast<double>(found) ? static_cast<int64_t>(wanted) : found;
             team.For(priors, [&](int64_t p) { negative[p] = 0; });
             team.For(count, [&](int64_t i) { negative[ranked[i].index] = 1; });
           });
}

// Takes ranked[0 .. sample_size), or the priors that remain after suppression by overlap with more
// costly ones.
template <typename T, typename Take>
CREMA_HOST_DEVICE void TakeExamples(const Team& team, const MultiBoxBatch<T>& batch, int64_t n,
                                    int64_t found, const Take& take) {
  const Ranked<double>* ranked = batch.lists.ranked + n * batch.sizes.boxes.priors;
  const int64_t sample = batch.rule.sample_size;
  if (!batch.rule.suppression.has_value()) {
    team.For(found < sample ? found : sample, [&](int64_t i) { take(ranked[i].index); });
    return;
  }
  const int64_t count = found < batch.sizes.candidates ? found : batch.sizes.candidates;
  Box* boxes = batch.lists.candidates + n * batch.sizes.candidates;
  team.For(count, [&](int64_t i) {
    const int64_t p = ranked[i].index;
    boxes[i] = batch.rule.suppress_priors ? batch.from.Prior(p) : batch.from.Predicted(n, p, 0);
  });
  SuppressionRule rule = *batch.rule.suppression;
  rule.most = sample;
  SuppressBoxes(team, count, boxes, rule, batch.lists.worst + n * batch.sizes.candidates,
                [&](int64_t i, int64_t) { take(ranked[i].index); });
}

// Removes matches outside the sample.
template <typename T>
void MineHardExamples(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  ForTeams(queue, "MineHardExamples", batch.sizes.boxes.images,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             uint8_t* negative = batch.lists.negative + n * priors;
             int32_t* match = batch.lists.match + n * priors;
             const int64_t found = RankCosts(team, batch, n);
             team.For(priors, [&](int64_t p) { negative[p] = 0; });
             TakeExamples(team, batch, n, found, [&](int64_t p) { negative[p] = 1; });
             team.For(priors, [&](int64_t p) {
               const bool taken = negative[p] != 0;
               negative[p] = taken && match[p] == kUnmatched ? 1 : 0;
               if (!taken && match[p] >= 0) match[p] = static_cast<int32_t>(kUnmatched);
             });
           });
}

template <typename T>
void Mine(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  if (batch.rule.mining == MultiBoxLossParameter::NONE) {
    ForElements(queue, "AllNegatives", batch.sizes.boxes.images * batch.sizes.boxes.priors,
                [=] CREMA_HOST_DEVICE(int64_t i) { batch.lists.negative[i] = 1; });
    return;
  }
  FillCosts(queue, batch);
  if (batch.rule.mining == MultiBoxLossParameter::MAX_NEGATIVE) {
    MineNegatives(queue, batch);
  } else {
    MineHardExamples(queue, batch);
  }
}

}  // namespace crema
