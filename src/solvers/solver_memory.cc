// The memory that a run takes on a GPU, and what is said where there is too little.
#include "graph/replace_sources.h"
#include "runtime/epoch_runner.h"
#include "runtime/memory_fit.h"
#include "solvers/solver.h"
#include "solvers/train_plan.h"

namespace crema {
namespace {

std::shared_ptr<const Plan> PlanWith(const NetOfRun& net, const Registry& registry,
                                     PlanOptions options, int64_t batch) {
  std::vector<Problem> reported_before;
  NetOfRun changed = net;
  if (batch > 0) ReplaceSources({.given = {}, .batch = batch}, &changed.file.net);
  options.implementation_timer = nullptr;
  return PlanNetOfRun(changed, registry, options, &reported_before);
}

}  // namespace

void Solver::Allocate(const Registry& registry) {
  const int64_t free = options_.device.FreeBytes();
  try {
    PlanNets(registry);
    AllocateHistory();
  } catch (const Error& error) {
    const bool explained = error.code() == ErrorCode::kOutOfMemory && free > 0 && train_plan_;
    if (!explained) throw;
    throw ExplainMemory(error, registry, free);
  }
}

Error Solver::ExplainMemory(const Error& cause, const Registry& registry, int64_t free) const {
  const Plan& train = *train_plan_;
  int64_t others = rule_.histories * WeightBytes(train);
  if (param_.ema_decay() > 0) others += WeightBytes(train);
  PlanOptions tested = train.options;
  tested.backward = false;
  for (const NetOfRun& test : config_.tests) {
    others += SessionBytes(*PlanWith(test, registry, tested, 0));
  }
  return ExplainShortage(cause, {.plan = train,
                                 .what = "training",
                                 .others = others,
                                 .of_others = "histories, averages and test nets",
                                 .free = free,
                                 .batch = FirstBatch(train),
                                 .plan_of = [&](int64_t batch) {
                                   return PlanWith(config_.train, registry, train.options, batch);
                                 }});
}

}  // namespace crema
