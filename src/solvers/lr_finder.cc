#include "solvers/lr_finder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

constexpr int64_t kFewest = 10;

void RefuseOutputs(const Plan& plan) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.layer->param().type() != "HDF5Output") continue;
    Fail(ErrorCode::kInvalidArgument,
         "this layer writes a file whenever the training net runs; leave it out of the TRAIN phase "
         "to look for a learning rate",
         {.layer = layer.name()});
  }
}

// Detects when an exponentially averaged loss is four times its best. The first few losses do not
// count: their average is too short.
class Divergence {
 public:
  bool Add(double loss) {
    constexpr double kKept = 0.9;
    constexpr double kTooMuch = 4;
    sum_ = kKept * sum_ + (1 - kKept) * loss;
    weight_ = kKept * weight_ + (1 - kKept);
    if (++count_ < kFewest) return false;
    const double mean = sum_ / weight_;
    best_ = std::min(best_, mean);
    return best_ > 0 && mean > kTooMuch * best_;
  }

 private:
  int64_t count_ = 0;
  double sum_ = 0;
  double weight_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

void Try(const LrFinderOptions& options, Solver* solver, LrFinding* finding) {
  const double decades = std::log(options.end / options.start);
  Divergence divergence;
  for (int64_t i = 0; i < options.iterations; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(options.iterations - 1);
    const double rate = options.start * std::exp(decades * share);
    const double loss = solver->Iterate(rate);
    finding->points.push_back({.rate = rate, .loss = loss, .smoothed = loss});
    if (divergence.Add(loss)) {
      finding->diverged = true;
      return;
    }
  }
}

void Search(const LrFinderOptions& options, Solver* solver, LrFinding* finding) {
  try {
    Try(options, solver, finding);
    solver->EndTrial();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDiverged) throw;
    finding->diverged = true;
  }
}

// Returns the number of points on each side that enter a smoothed loss.
int64_t SmoothingReach(int64_t count) { return std::max<int64_t>(2, count / 20); }

// Weights decrease linearly to both sides; at the ends there are fewer.
double Smooth(const std::vector<LrFinding::Point>& points, int64_t middle, int64_t reach) {
  const auto count = static_cast<int64_t>(points.size());
  const int64_t most = std::min({reach, middle, count - 1 - middle});
  double sum = 0;
  double weight = 0;
  for (int64_t d = -most; d <= most; ++d) {
    const auto w = static_cast<double>(most + 1 - std::abs(d));
    sum += w * points[static_cast<size_t>(middle + d)].loss;
    weight += w;
  }
  return sum / weight;
}

}  // namespace

void CheckLrFinderOptions(const LrFinderOptions& options) {
  const auto refuse = [](const std::string& message) {
    Fail(ErrorCode::kInvalidArgument, message);
  };
  if (!(options.start > 0) || !std::isfinite(options.start)) {
    refuse(StrCat("the first rate is ", options.start, "; use a number above 0"));
  }
  if (!(options.end > options.start) || !std::isfinite(options.end)) {
    refuse(StrCat("the last rate is ", options.end, "; use a number above the first, ",
                  options.start));
  }
  if (options.iterations < kFewest || options.iterations > 1'000'000) {
    refuse(StrCat("there are ", options.iterations, " iterations; use ", kFewest, " to 1000000"));
  }
}

void JudgeLosses(LrFinding* finding) {
  std::vector<LrFinding::Point>& points = finding->points;
  finding->suggested.reset();
  const auto count = static_cast<int64_t>(points.size());
  const int64_t reach = SmoothingReach(count);
  if (count < kFewest) {
    finding->reason = "the loss blew up within a few iterations; begin with a smaller rate";
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    points[static_cast<size_t>(i)].smoothed = Smooth(points, i, reach);
  }
  // Losses at the ends are hardly smoothed: their changes may be noise.
  const auto lowest = std::ranges::min_element(points.begin() + reach, points.end() - reach, {},
                                               &LrFinding::Point::smoothed);
  finding->lowest = static_cast<size_t>(lowest - points.begin());
  finding->still_falling =
      !finding->diverged && static_cast<int64_t>(finding->lowest) == count - reach - 1;
  const double first = points[static_cast<size_t>(reach)].smoothed;
  constexpr double kWorthNaming = 0.02;
  if (!(first - lowest->smoothed > kWorthNaming * std::abs(first))) {
    finding->reason = "the loss fell at no rate; try more iterations or other rates";
    return;
  }
  double steepest = 0;
  for (auto i = static_cast<size_t>(reach); i <= finding->lowest; ++i) {
    const double slope = points[i + 1].smoothed - points[i - 1].smoothed;
    if (slope >= steepest) continue;
    steepest = slope;
    finding->suggested = i;
  }
}

LrFinding FindLearningRate(const LrFinderOptions& options, Solver* solver) {
  CheckLrFinderOptions(options);
  RefuseOutputs(solver->plan());
  LrFinding finding;
  solver->WithoutTrace([&] { Search(options, solver, &finding); });
  JudgeLosses(&finding);
  return finding;
}

SolverFile SolverForFinding(SolverFile file, const LrFinderOptions& options) {
  SolverParameter& solver = file.solver;
  solver.set_lr_policy("fixed");
  solver.set_base_lr(static_cast<float>(options.start));
  solver.set_max_iter(static_cast<int>(options.iterations));
  solver.set_snapshot_after_train(false);
  for (const char* field : {"gamma",          "power",           "stepsize",
                            "stepvalue",      "plateau_winsize", "stagelr",
                            "stageiter",      "rampup_interval", "rampup_lr",
                            "min_lr",         "warmup_iter",     "warmup_start_lr",
                            "plateau",        "one_cycle_param", "max_epoch",
                            "time_limit",     "display",         "snapshot",
                            "snapshot_epoch", "snapshot_prefix", "snapshot_keep",
                            "snapshot_best",  "early_stop",      "ema_decay",
                            "test_net",       "test_net_param",  "test_iter",
                            "test_state",     "test_interval",   "test_interval_epoch"}) {
    const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
    CREMA_CHECK(descriptor != nullptr);
    solver.GetReflection()->ClearField(&solver, descriptor);
  }
  return file;
}

}  // namespace crema
