#include "report/pace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/strings.h"

namespace crema {

void WaitHint::OnIteration(const IterationReport& report) {
  constexpr double kMuch = 0.2;
  if (said_) return;
  // The first iteration necessarily waits for its batch.
  if (!std::exchange(first_, false)) window_.Add(report);
  if (!window_.IsFull()) return;
  const double share = window_.Total().WaitShare();
  if (!(share > kMuch)) return;
  said_ = true;
  log_.Write(Severity::kWarning,
             StrCat("hint: ", std::lround(100 * share), " % of the last ", kIterations,
                    " iterations went into waiting for data. Give the data layer more threads and "
                    "prefetch (data_param { threads: 8 prefetch: 8 }), store images in the size "
                    "that the net takes (less to decode) or unencoded, keep them in memory (cache "
                    "in image_data_param), or put the data on a faster disk"));
}

void RankPace::Add(const IterationReport& report) {
  sum.passes.resize(report.ranks.passes.size());
  for (size_t r = 0; r < sum.passes.size(); ++r) sum.passes[r] += report.ranks.passes[r];
  sum.sums += report.ranks.sums;
  sum.exposed += report.ranks.exposed;
  seconds += report.seconds;
  ++iterations;
}

void RankHint::OnIteration(const IterationReport& report) {
  constexpr int kIterations = 100;
  if (report.ranks.passes.empty()) return;
  pace_.Add(report);
  if (pace_.iterations < kIterations) return;
  WarnOfSlowRank();
  WarnOfSums();
  pace_ = {};
}

void RankHint::WarnOfSlowRank() {
  constexpr double kMuch = 1.25;
  std::vector<double> sorted = pace_.sum.passes;
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2];
  const double ratio = sorted.back() / median;
  if (slow_said_ || !(ratio > kMuch)) return;
  slow_said_ = true;
  const auto slowest = std::ranges::find(pace_.sum.passes, sorted.back());
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", ratio);
  log_.Write(Severity::kWarning,
             StrCat("hint: the passes of rank ", slowest - pace_.sum.passes.begin(), " take ", text,
                    " times as long as those of the median rank, and all wait for it. Its log says "
                    "where it runs: look for other programs on its processors, fewer threads, or a "
                    "slower disk"));
}

void RankHint::WarnOfSums() {
  constexpr double kMuch = 0.2;
  const double share = pace_.sum.exposed / pace_.seconds;
  if (sums_said_ || !(share > kMuch)) return;
  sums_said_ = true;
  log_.Write(Severity::kWarning,
             StrCat("hint: ", std::lround(100 * share), " % of the last ", pace_.iterations,
                    " iterations went into sums of gradients that the backward pass does not hide. "
                    "Give each rank a larger batch, or use a faster network"));
}

}  // namespace crema
