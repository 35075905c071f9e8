#include "solvers/metric_tracker.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/output_means.h"

namespace crema {
namespace {

constexpr const char* kLoss = "loss";

[[noreturn]] void FailRule(const std::string& field, std::string message) {
  Fail(ErrorCode::kInvalidArgument, std::move(message), {.field = field});
}

std::vector<std::string> OutputsOf(const Plan& plan) {
  std::vector<std::string> names;
  for (int v : plan.outputs) names.push_back(plan.values[static_cast<size_t>(v)].name);
  return names;
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Splits "test#1:accuracy"; without a net it means the first.
size_t TakeNet(std::string* metric) {
  constexpr std::string_view kPrefix = "test#";
  const size_t colon = metric->find(':');
  if (!metric->starts_with(kPrefix) || colon == std::string::npos) return 0;
  size_t net = 0;
  const char* end = metric->data() + colon;
  const auto [rest, error] = std::from_chars(metric->data() + kPrefix.size(), end, net);
  if (error != std::errc() || rest != end) return 0;
  metric->erase(0, colon + 1);
  return net;
}

}  // namespace

MetricTracker::MetricTracker(std::string field, const MetricRule& rule,
                             std::span<const Plan* const> tests)
    : field_(std::move(field)), rule_(rule) {
  if (tests.empty()) {
    FailRule(field_, StrCat(field_, " looks at tests, but this run has no test net"));
  }
  if (rule_.patience() < 1) {
    FailRule(field_ + ".patience",
             StrCat(field_, ".patience is ", rule_.patience(), "; use 1 or more"));
  }
  if (!(rule_.min_delta() >= 0) || !std::isfinite(rule_.min_delta())) {
    FailRule(field_ + ".min_delta",
             StrCat(field_, ".min_delta is ", rule_.min_delta(), "; use 0 or more"));
  }
  ChooseMetric(tests);
  const std::string name = blob_.empty() ? kLoss : Lower(blob_);
  const bool falls =
      name.find("loss") != std::string::npos || name.find("error") != std::string::npos;
  smaller_is_better_ =
      rule_.mode() == MetricRule::MIN || (rule_.mode() == MetricRule::AUTO && falls);
}

void MetricTracker::ChooseMetric(std::span<const Plan* const> tests) {
  std::string metric = rule_.metric();
  net_ = TakeNet(&metric);
  if (net_ >= tests.size()) {
    FailRule(field_ + ".metric", StrCat(field_, ".metric: there is no test net #", net_,
                                        "; this run has ", tests.size(), ", counted from 0"));
  }
  const std::vector<std::string> outputs = OutputsOf(*tests[net_]);
  if (metric.empty()) metric = std::ranges::count(outputs, "accuracy") == 1 ? "accuracy" : kLoss;
  blob_ = metric;
  // The name of a blob; if there is none, the total loss.
  if (metric == kLoss && std::ranges::find(outputs, kLoss) == outputs.end()) {
    blob_.clear();
    return;
  }
  FindBlob(*tests[net_]);
}

void MetricTracker::FindBlob(const Plan& plan) {
  for (int v : plan.outputs) {
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    if (value.name != blob_) continue;
    if (value.spec.shape.count() == 1 || HoldsVerdicts(plan, v)) return;
    FailRule(field_ + ".metric",
             StrCat(field_, ".metric: '", blob_, "' is ", ToString(value.spec.shape),
                    ", but a metric is one number"));
  }
  const std::vector<std::string> outputs = OutputsOf(plan);
  FailRule(field_ + ".metric",
           StrCat(field_, ".metric: test net #", net_, " has no output '", blob_, "'",
                  DidYouMean(blob_, outputs), "; its outputs: ", Join(outputs, " ")));
}

std::string MetricTracker::metric() const {
  return StrCat("test#", net_, ":", blob_.empty() ? kLoss : blob_.c_str());
}

double MetricTracker::ValueOf(std::span<const TestReport> reports) const {
  CREMA_CHECK(net_ < reports.size());
  const TestReport& report = reports[net_];
  if (blob_.empty()) return report.loss;
  const auto found = std::ranges::find(report.outputs, blob_, &OutputValue::blob);
  // Omitted, as its size changed.
  if (found == report.outputs.end()) return std::numeric_limits<double>::quiet_NaN();
  return found->value;
}

bool MetricTracker::Update(int64_t iteration, std::span<const TestReport> reports) {
  const double value = ValueOf(reports);
  const double delta = static_cast<double>(rule_.min_delta());
  const bool better =
      !std::isnan(value) &&
      (!best_ || (smaller_is_better_ ? value < *best_ - delta : value > *best_ + delta));
  if (!better) {
    ++waited_;
    return false;
  }
  best_ = value;
  best_iteration_ = iteration;
  waited_ = 0;
  return true;
}

void MetricTracker::Save(SolverState* state) const {
  MetricState* entry = state->add_metric_state();
  entry->set_rule(field_);
  if (best_) entry->set_best(*best_);
  entry->set_best_iter(static_cast<int>(best_iteration_));
  entry->set_waited(waited_);
}

void MetricTracker::Restore(const SolverState& state) {
  for (const MetricState& entry : state.metric_state()) {
    if (entry.rule() != field_) continue;
    best_ = entry.has_best() ? std::optional<double>(entry.best()) : std::nullopt;
    best_iteration_ = entry.best_iter();
    waited_ = entry.waited();
  }
}

}  // namespace crema
