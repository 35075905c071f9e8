#include "solvers/run_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/graph.h"
#include "graph/replace_sources.h"
#include "plan/summary.h"
#include "runtime/epoch_runner.h"
#include "runtime/memory_fit.h"
#include "runtime/output_means.h"
#include "solvers/freeze.h"
#include "solvers/snapshot_set.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

std::shared_ptr<const Plan> PlanWith(const NetOfRun& net, const Registry& registry,
                                     PlanOptions options, int64_t batch) {
  std::vector<Problem> reported_before;
  NetOfRun changed = net;
  if (batch > 0) ReplaceSources({.given = {}, .batch = batch}, registry, &changed.file.net);
  options.implementation_timer = nullptr;
  return PlanNetOfRun(changed, registry, options, &reported_before);
}

// Returns the plans of the test nets on the device of the training net.
std::vector<std::shared_ptr<const Plan>> PlanTests(const RunConfig& config,
                                                   const Registry& registry, const Plan& train) {
  PlanOptions options = train.options;
  options.backward = false;
  std::vector<std::shared_ptr<const Plan>> plans;
  for (const NetOfRun& test : config.tests) plans.push_back(PlanWith(test, registry, options, 0));
  return plans;
}

// Returns the bytes on a GPU besides those of the training net.
int64_t OtherGpuBytes(const RunConfig& config, const Registry& registry, const Plan& train) {
  const SolverParameter& solver = config.solver.solver;
  const int64_t copies =
      FindUpdateRule(solver.type())->histories + (solver.ema_decay() > 0 ? 1 : 0);
  int64_t bytes = copies * WeightBytes(train);
  for (const auto& test : PlanTests(config, registry, train)) bytes += SessionBytes(*test);
  return bytes;
}

}  // namespace

std::string Mebibytes(int64_t bytes) {
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  if (bytes >= 10 * kGibibyte) return StrCat(bytes / kGibibyte, " GiB");
  const double tenths = std::round(static_cast<double>(bytes) * 10 / (1 << 20));
  return StrCat(tenths / 10, " MiB");
}

int64_t TrainingBytes(const SolverParameter& solver, const Plan& plan) {
  const UpdateRule* rule = FindUpdateRule(solver.type());
  const int64_t copies = (rule == nullptr ? 0 : rule->histories) + (solver.ema_decay() > 0 ? 1 : 0);
  return Summarize(plan).peak_bytes + copies * plan.ParameterCount() * int64_t{sizeof(float)};
}

int64_t TestingBytes(const Plan& plan) {
  const NetSummary summary = Summarize(plan);
  return summary.peak_bytes - summary.weight_bytes;
}

int64_t RunBytes(const RunConfig& config, const Registry& registry, const Plan& train) {
  if (train.options.device.type != DeviceType::kCpu) {
    return SessionBytes(train) + OtherGpuBytes(config, registry, train);
  }
  const SolverParameter& solver = config.solver.solver;
  int64_t bytes = TrainingBytes(solver, train);
  for (const auto& test : PlanTests(config, registry, train)) bytes += TestingBytes(*test);
  const int histories = FindUpdateRule(solver.type())->histories;
  // The messages, and the bytes of the model's file.
  return bytes + WeightBytes(train) +
         static_cast<int64_t>(SnapshotBytes(train, histories, solver.ema_decay() > 0));
}

std::optional<Problem> FindMemoryProblem(int64_t needed, int64_t available) {
  if (available == 0 || needed <= available) return std::nullopt;
  return Problem{ErrorCode::kOutOfMemory,
                 {},
                 StrCat("the nets need ", Mebibytes(needed), " of memory, but there are ",
                        Mebibytes(available), ": lower batch_size (iter_size makes up for it)")};
}

void RequireMemory(int64_t needed) {
  const std::optional<Problem> problem = FindMemoryProblem(needed, AvailableMemory());
  if (problem) throw Error({*problem});
}

Error ExplainRunShortage(const Error& cause, const RunConfig& config, const Registry& registry,
                         const Plan& train, int64_t free) {
  return ExplainShortage(cause, {.plan = train,
                                 .what = "training",
                                 .others = OtherGpuBytes(config, registry, train),
                                 .of_others = "histories, averages and test nets",
                                 .free = free,
                                 .batch = FirstBatch(train),
                                 .plan_of = [&](int64_t batch) {
                                   return PlanWith(config.train, registry, train.options, batch);
                                 }});
}

namespace {

// An output of many values is mostly a layer that was forgotten, or that should end in Silence.
void WarnAboutLargeOutputs(const NetOfRun& net, const Plan& plan, std::vector<Problem>* warnings) {
  for (const int output : plan.outputs) {
    const PlannedValue& value = plan.values[static_cast<size_t>(output)];
    const int64_t count = value.spec.shape.count();
    if (count <= kMostReportedElements || HoldsVerdicts(plan, output)) continue;
    Where where = net.file.source.Locate("");
    for (int i = 0; i < net.file.net.layer_size(); ++i) {
      const LayerParameter& layer = net.file.net.layer(i);
      if (std::ranges::find(layer.top(), value.name) == layer.top().end()) continue;
      if (!IsIncluded(layer, net.state)) continue;
      where = net.file.source.Locate(StrCat("layer[", i, "].top"));
      where.layer = layer.name();
    }
    warnings->push_back(
        {ErrorCode::kInvalidArgument, std::move(where),
         StrCat("top '", value.name, "' (", ToString(value.spec.shape),
                ") is read by no layer, so it is an output; its ", count,
                " values are not logged: remove the layer, or end it in a Silence layer")});
  }
}

}  // namespace

std::shared_ptr<const Plan> PlanNetOfRun(const NetOfRun& net, const Registry& registry,
                                         const PlanOptions& options,
                                         std::vector<Problem>* warnings) {
  const NetFile& file = net.file;
  warnings->insert(warnings->end(), file.warnings.begin(), file.warnings.end());
  std::shared_ptr<const Plan> plan =
      MakePlan(file.net, file.source, net.state, registry, options, warnings);
  WarnAboutLargeOutputs(net, *plan, warnings);
  return plan;
}

TrainPlan HoldFrozenLayers(const SolverFile& solver, std::shared_ptr<const Plan> plan,
                           const Registry& registry, NetOfRun* train) {
  if (solver.solver.freeze_size() == 0) return {.plan = std::move(plan), .frozen = {}};
  TrainPlan held{.plan = nullptr, .frozen = FrozenLayers(solver, *plan)};
  Freeze(held.frozen, *plan, &train->file.net);
  std::vector<Problem> reported_before;
  held.plan = PlanNetOfRun(*train, registry, plan->options, &reported_before);
  return held;
}

std::vector<Problem> WarnAboutRandomTests(const NetOfRun& net) {
  std::vector<Problem> warnings;
  for (int i = 0; i < net.file.net.layer_size(); ++i) {
    const LayerParameter& layer = net.file.net.layer(i);
    const TransformationParameter& transform = layer.transform_param();
    const std::pair<const char*, bool> kSteps[] = {
        {"transform_param.mirror", transform.mirror()},
        {"transform_param.distort_param", transform.has_distort_param()},
        {"transform_param.expand_param", transform.has_expand_param()},
        {"transform_param.noise_param", transform.has_noise_param()}};
    for (const auto& [field, is_set] : kSteps) {
      if (!is_set || !IsIncluded(layer, net.state)) continue;
      Where where = net.file.source.Locate(StrCat("layer[", i, "].", field));
      where.layer = layer.name();
      where.field = field;
      warnings.push_back({ErrorCode::kInvalidArgument, std::move(where),
                          StrCat(std::string_view(field).substr(std::strlen("transform_param.")),
                                 " acts in TEST too, at random: results differ between runs; "
                                 "give the TEST phase a data layer without it")});
    }
  }
  return warnings;
}

std::vector<Problem> CheckTraining(const SolverParameter& solver, const Plan& plan) {
  if (std::ranges::any_of(plan.layers, &PlannedLayer::backward)) return {};
  if (solver.freeze_size() > 0 || (solver.has_base_lr() && solver.base_lr() == 0)) return {};
  return {{ErrorCode::kInvalidArgument,
           {},
           "this net learns nothing: no loss depends on a parameter with an lr_mult; add a layer "
           "such as SoftmaxWithLoss, with a loss_weight above 0 (or set base_lr: 0 to run the net "
           "without learning)"}};
}

}  // namespace crema
